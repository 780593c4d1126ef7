"""What a page is made of: sections of text, tables and charts. Nothing here knows HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    details: tuple[str, ...] = ()
    """Smaller lines below the text."""
    value: float | None = None
    """What the column is sorted by; without one it is the text."""
    mark: str = ""
    """``within`` or ``beyond``, which are told apart by colour; the details say the same in words."""


@final
@dataclass(frozen=True)
class DataTable:
    """A table whose lines can be sorted by any column."""

    caption: str
    header: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Key:
    """An entry of a legend; a click on it hides what has its name, and shows it again."""

    name: str
    colour: str
    mark: str
    """``solid``, ``dashed`` or ``dotted`` for a line, else the character that stands for a point."""


@final
@dataclass(frozen=True)
class Chart:
    """A figure of plotly, with the same in words and in numbers."""

    title: str
    description: str
    """What a reader who does not see the chart is told."""
    figure: dict[str, Any]
    """``data`` and ``layout``; a colour is the name of a CSS variable, such as ``var(--c1)``."""
    data: DataTable
    legend: tuple[Key, ...] = ()
    """The ``legendgroup`` of a trace is the position of its entry here."""


@final
@dataclass(frozen=True)
class ChartRow:
    """Charts side by side, as many as the window has room for."""

    charts: tuple[Chart, ...]


@final
@dataclass(frozen=True)
class Folded:
    """Something that is shown on request."""

    summary: str
    blocks: "tuple[Block, ...]"


Block = str | DataTable | ChartRow | Folded
"""A text is a paragraph."""


@final
@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    title: str
    blocks: tuple[Block, ...]
    short: str = ""
    """In the list of contents, in the place of the title."""


@final
@dataclass(frozen=True)
class Page:
    """All of it."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]


def number(value: float | None, digits: int = 2) -> Cell:
    """A cell with a number, or an empty one."""
    return Cell("") if value is None else Cell(f"{value:.{digits}f}", value=value)


def text_table(caption: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> DataTable:
    """A table of texts."""
    return DataTable(caption, tuple(header), tuple(tuple(Cell(text) for text in line) for line in lines))
