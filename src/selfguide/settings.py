"""Settings of a command as a checked dataclass: from defaults, a preset, a TOML file and flags, in that order."""

import dataclasses
import difflib
import math
import tomllib
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from selfguide.errors import InputError


def setting(default: Any, help: str, *, choices: tuple[str, ...] = (), metavar: str | None = None) -> Any:  # noqa: ANN401
    """A dataclass field with what the command line needs to know about it."""
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices, "metavar": metavar})


def as_setting(value: Any) -> Any:  # noqa: ANN401 - any setting
    """A value from Python as settings are kept: a path as text, a list as a tuple."""
    if isinstance(value, Path):
        return str(value)
    return tuple(value) if isinstance(value, list) else value


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


def unknown_names(names: Iterable[str], settings_type: type, where: str) -> list[str]:
    """What is wrong with names that are no settings: at most one line, with the nearest setting of each."""
    known = [field.name for field in dataclasses.fields(settings_type)]
    unknown = ", ".join(with_hint(name, known) for name in names if name not in known)
    return [f"{where}: unknown setting {unknown}; the settings are: {', '.join(sorted(known))}"] if unknown else []


def with_hint(name: str, known: Iterable[str]) -> str:
    """A name that is not known, in quotes, with the nearest one that is."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"'{name}'" + (f" (did you mean '{near[0]}'?)" if near else "")


def read_toml(path: Path, settings_type: type) -> dict[str, Any]:
    """Settings of a TOML file; dashes in names may stand for underscores.

    Raises:
        InputError: when the file is missing or no TOML, or names a setting that does not exist.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the configuration file '{path}' cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the configuration file '{path}' is no valid TOML: {error}") from error
    values = {name.replace("-", "_"): value for name, value in table.items()}
    problems = unknown_names(values, settings_type, f"in '{path}'")
    if problems:
        raise InputError("; ".join(problems))
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def check_values(settings: Any) -> dict[str, str]:  # noqa: ANN401 - any settings dataclass
    """What is wrong with the types and choices of a settings object: name of the field -> one line."""
    problems = {}
    for name, (kind, optional) in field_types(type(settings)).items():
        field, value = type(settings).__dataclass_fields__[name], getattr(settings, name)
        if (value is None and optional) or (value == "" and field.default == ""):
            continue
        choices = field.metadata["choices"]
        if not _is_a(kind, value):
            problems[name] = f"{flag_of(name)} is {value!r}; it takes {_IN_WORDS[kind]}"
        elif choices and value not in choices:
            problems[name] = f"{flag_of(name)} '{value}' is not known; choose one of: {', '.join(choices)}"
    return problems


def _is_a(kind: type, value: object) -> bool:
    """Whether a value is of a type, and one that can be meant: no empty text, no infinite number."""
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    if kind is tuple:
        return isinstance(value, tuple) and all(_is_a(str, item) for item in value)
    return isinstance(value, kind) and value != ""


_IN_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: "a list of texts"}
