"""Flags from a settings dataclass; only what the user typed comes back, so that files and presets can fill in the rest."""

import argparse
import dataclasses
from typing import Any, NoReturn

from selfguide.errors import InputError
from selfguide.settings import field_types, flag_of


class Parser(argparse.ArgumentParser):
    """An argument parser that reports wrong use as our own errors: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Turn argparse's complaint into ours."""
        raise InputError(f"{message}; '{self.prog} --help' lists what is allowed")


def add_settings(parser: argparse.ArgumentParser, settings_type: type) -> None:
    """Add a flag for every field of a settings dataclass."""
    kinds = field_types(settings_type)
    for field in dataclasses.fields(settings_type):
        kind, _ = kinds[field.name]
        names = [flag_of(field.name)] + (["-o"] if field.name == "output" else [])
        parser.add_argument(*names, dest=field.name, default=argparse.SUPPRESS, **_options(field, kind))


def given_settings(arguments: argparse.Namespace, settings_type: type) -> dict[str, Any]:
    """The settings that were typed."""
    known = {field.name for field in dataclasses.fields(settings_type)}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in vars(arguments).items() if name in known}


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


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None


_TYPES: dict[type, Any] = {int: _whole_number, float: _number}
_METAVARS = {int: "N", float: "X", str: "NAME"}
