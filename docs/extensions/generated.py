"""What pages show but nobody writes twice: the README, all flags of all commands, the fields of all settings.

A page asks for it with a comment on a line of its own:

    <!-- page ../README.md until "## Documentation" -->
    <!-- commands -->
    <!-- settings selfguide.training.config.TrainingConfig -->
"""

import argparse
import dataclasses
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOVED = {"benchmarks/README.md": "benchmarks.md"}
"""Pages of the repository that the site has -> where."""


def fill_in(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the comments of a page."""
    text = _on_the_site(source[0], (DOCS / name).parent, (DOCS / name).parent)
    text = re.sub(r'^<!-- page ../(\S+)(?: until "([^"]+)")? -->$', lambda m: page(m[1], m[2]), text, flags=re.M)
    text = re.sub(r"^<!-- commands -->$", lambda _: commands(), text, flags=re.M)
    source[0] = re.sub(r"^<!-- settings (\S+) -->$", lambda m: settings(m[1]), text, flags=re.M)


def page(path: str, until: str | None) -> str:
    """A page of the repository that is not in ``docs/``, up to a line; its links fit the site."""
    text = (ROOT / path).read_text("utf-8")
    if until is not None:
        text, found, _ = text.partition(f"\n{until}\n")
        assert found, f"{path} has no line '{until}'"
    return _on_the_site(text, (ROOT / path).parent, DOCS)


def _on_the_site(text: str, old: Path, new: Path) -> str:
    """A text whose links were seen from one folder, and are now from another; what the site does not have is no link."""

    def link(found: re.Match[str]) -> str:
        label, target, heading = found.groups()
        if not (old / target).exists():
            return found[0]  # the build will tell
        place = os.path.relpath((old / target).resolve(), ROOT)
        place = f"docs/{MOVED[place]}" if place in MOVED else place
        if not place.startswith("docs/"):
            return str(label)
        return f"[{label}]({Path(os.path.relpath(ROOT / place, new)).as_posix()}{heading or ''})"

    return re.sub(r"\[([^\[\]]+)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]+)?\)", link, text)


def commands() -> str:
    """All commands with their flags, from the parsers that read them."""
    from selfguide.cli.main import build_parser

    [of_all] = [action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    summaries = {choice.dest: choice.help for choice in of_all._choices_actions}
    return "\n".join(
        f"## selfguide {name}\n\n{_sentence(summaries[name] or '')}\n\n{_flags(parser)}"
        for name, parser in of_all.choices.items()
    )


def _flags(parser: argparse.ArgumentParser) -> str:
    rows = [f"| {_name(action)} | {_cell(_help(action))} |" for action in _shown(parser)]
    return "\n".join(["| flag | meaning |", "|---|---|", *rows, ""])


def _shown(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Positional ones first; ``--help`` is in all commands."""
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    yield from sorted(actions, key=lambda action: bool(action.option_strings))


def _name(action: argparse.Action) -> str:
    value = action.metavar or "{" + ",".join(map(str, action.choices or ())) + "}"
    many = " ..." if action.nargs == "+" else ""
    if not action.option_strings:
        return _code(f"{value}{many}")
    flags = [flag for flag in action.option_strings if flag != "-o"]
    if action.nargs == 0:
        return ", ".join(map(_code, flags))
    value = value if value != "{}" else action.dest.upper()
    return ", ".join(_code(f"{flag} {value}{many}") for flag in flags) + (", `-o`" if "-o" in action.option_strings else "")


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def settings(path: str) -> str:
    """The fields of a settings dataclass, each with its default."""
    module, _, name = path.rpartition(".")
    rows = [
        f"| `{field.name}` | {_default(field)} | {_cell(field.metadata['help'])} |"
        for field in dataclasses.fields(getattr(import_module(module), name))
    ]
    return "\n".join(["| name | default | meaning |", "|---|---|---|", *rows, ""])


def _default(field: dataclasses.Field[Any]) -> str:
    return "" if field.default in (None, "", ()) else _code(repr(field.default))


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _cell(text: str) -> str:
    """Plain text in a cell of a table."""
    return re.sub(r"([|<>*_\[\]{}])", r"\\\1", " ".join(text.split()))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def setup(app: Sphinx) -> dict[str, bool]:
    """Fill in before a page is parsed; what it shows comes from code, so that such a page is always read again."""
    app.connect("source-read", fill_in)
    app.connect("env-get-outdated", lambda *_: ["index", "benchmarks", "commands", "api"])
    return {"parallel_read_safe": True, "parallel_write_safe": True}
