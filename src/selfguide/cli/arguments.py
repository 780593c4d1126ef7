"""Flags from a settings dataclass; only what the user typed comes back, so that files and presets can fill in the rest."""

import argparse
import dataclasses
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NoReturn

from selfguide.errors import InputError
from selfguide.settings import field_types, flag_of, with_hint


class Parser(argparse.ArgumentParser):
    """An argument parser that reports wrong use as our own errors: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Turn argparse's complaint into ours."""
        raise InputError(f"{message}; '{self.prog} --help' lists what is allowed")

    def parse_known_args(  # type: ignore[override]  # argparse has overloads
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what is not known here, where the flags of the command are at hand for a hint."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            names = [text.partition("=")[0] for text in unknown if text.startswith("-")] or unknown
            self.error(f"not known here: {', '.join(with_hint(name, self._option_string_actions) for name in names)}")
        return parsed, unknown


def add_settings(parser: argparse.ArgumentParser, settings_type: type, *, without: Collection[str] = ()) -> None:
    """Add a flag for every field of a settings dataclass, but for those named in ``without``."""
    kinds = field_types(settings_type)
    for field in dataclasses.fields(settings_type):
        if field.name in without:
            continue
        kind, _ = kinds[field.name]
        names = [flag_of(field.name)] + (["-o"] if field.name == "output" else [])
        parser.add_argument(*names, dest=field.name, default=argparse.SUPPRESS, **_options(field, kind))


def given_settings(arguments: argparse.Namespace, settings_type: type) -> dict[str, Any]:
    """The settings that were typed; columns may be given with commas, too."""
    known = {field.name for field in dataclasses.fields(settings_type)}
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in vars(arguments).items() if name in known}
    if "column" in given:
        given["column"] = tuple(name for text in given["column"] for name in text.split(","))
    return given


def _options(field: dataclasses.Field[Any], kind: type) -> dict[str, Any]:
    text = field.metadata["help"]
    if field.default not in (None, "", ()) and kind is not bool:
        text += f" (default: {field.default})"
    options: dict[str, Any] = {"help": text.replace("%", "%%")}
    if kind is bool:
        return {**options, "action": argparse.BooleanOptionalAction}
    if kind is tuple:
        return {**options, "action": "extend", "nargs": "+", "type": str, "metavar": field.metadata["metavar"] or "NAME"}
    choices = field.metadata["choices"]
    # checked with all other values, so that every mistake is told at once; here only shown
    metavar = "{" + ",".join(choices) + "}" if choices else field.metadata["metavar"] or _METAVARS[kind]
    return {**options, "type": _TYPES.get(kind, kind), "metavar": metavar}


def _number_or_text(kind: type, text: str) -> int | float | str:
    """The number, or the text as it is: the check of all settings tells about it, together with every other mistake."""
    try:
        return kind(text)  # type: ignore[no-any-return]
    except ValueError:
        return text


_TYPES: dict[type, Any] = {int: partial(_number_or_text, int), float: partial(_number_or_text, float)}
_METAVARS = {int: "N", float: "X", str: "NAME"}
