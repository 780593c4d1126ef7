"""Settings of a command as a checked dataclass: from defaults, a preset, a TOML file and flags, in that order."""

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfguide.errors import InputError


def setting(default: Any, help: str, *, choices: tuple[str, ...] = (), metavar: str | None = None) -> Any:  # noqa: ANN401
    """A dataclass field with what the command line needs to know about it."""
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices, "metavar": metavar})


def flag_of(name: str) -> str:
    """The flag of a field: ``batch_size`` -> ``--batch-size``."""
    return "--" + name.replace("_", "-")


def field_types(settings_type: type) -> dict[str, tuple[type, bool]]:
    """Name of each field -> its type and whether it may be None; a tuple's type is ``tuple``."""
    hints = typing.get_type_hints(settings_type)
    found = {}
    for field in dataclasses.fields(settings_type):
        hint = hints[field.name]
        optional = isinstance(hint, types.UnionType) and type(None) in typing.get_args(hint)
        if optional:
            hint = next(option for option in typing.get_args(hint) if option is not type(None))
        found[field.name] = (typing.get_origin(hint) or hint, optional)
    return found


def check_names(names: Mapping[str, Any], settings_type: type, where: str) -> None:
    """Refuse names that are no settings, with the nearest one that is.

    Raises:
        InputError: that lists every unknown name.
    """
    known = [field.name for field in dataclasses.fields(settings_type)]
    problems = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            problems.append(f"'{name}'" + (f" (did you mean '{near[0]}'?)" if near else ""))
    if problems:
        raise InputError(f"{where}: unknown setting {', '.join(problems)}; the settings are: {', '.join(sorted(known))}")


def read_toml(path: Path, settings_type: type) -> dict[str, Any]:
    """Settings of a TOML file; dashes in names may stand for underscores.

    Raises:
        InputError: when the file is missing or no TOML, or names a setting that does not exist.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the configuration file '{path}' cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the configuration file '{path}' is no valid TOML: {error}") from error
    values = {name.replace("-", "_"): value for name, value in table.items()}
    check_names(values, settings_type, f"in '{path}'")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def check_values(settings: Any) -> list[str]:  # noqa: ANN401 - any settings dataclass
    """What is wrong with the types and choices of a settings object, one line each."""
    problems = []
    expected = field_types(type(settings))
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        kind, optional = expected[field.name]
        if value is None and optional:
            continue
        allowed = (int, float) if kind is float else kind
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            problems.append(f"{flag_of(field.name)} is {value!r}; it takes {_in_words(kind)}")
        elif field.metadata["choices"] and value not in field.metadata["choices"]:
            problems.append(
                f"{flag_of(field.name)} '{value}' is not known; choose one of: {', '.join(field.metadata['choices'])}"
            )
    return problems


def _in_words(kind: type) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list"}
    return names.get(kind, kind.__name__)
