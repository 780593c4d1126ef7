"""Tables as text for a terminal, Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Callable, Sequence

from selfguide.errors import InputError
from selfguide.tables import Cell, Table


def write_tables(tables: Sequence[Table], format: str) -> str:
    """All tables in one of the formats ``text``, ``markdown``, ``csv`` and ``latex``.

    Raises:
        InputError: for another format.
    """
    if format not in FORMATS:
        raise InputError(f"table format '{format}' is not known; choose one of: {', '.join(FORMATS)}")
    return "\n".join(FORMATS[format](table) for table in tables)


def as_text(table: Table) -> str:
    """Aligned columns for a terminal."""
    rows = [list(table.header), *([label, *map(_plain, cells)] for label, cells in table.lines)]
    widths = [max(len(row[position]) for row in rows) for position in range(len(table.header))]
    lines = []
    for label, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([label.ljust(widths[0]), *aligned]))
    return "\n".join([table.title, *lines, *table.notes]) + "\n"


def as_markdown(table: Table) -> str:
    """A table of GitHub's Markdown."""
    rule = ("---", *("---:" for _ in table.header[1:]))
    rows = [table.header, rule, *((label, *map(_plain, cells)) for label, cells in table.lines)]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([f"**{table.title}**", "", *lines, "", *(f"{note}  " for note in table.notes)]) + "\n"


def as_csv(table: Table) -> str:
    """Comma-separated values, without title and notes; over several seeds, each column has its deviation beside it."""
    has_spread = any(cell.spread is not None for _, cells in table.lines for cell in cells)
    names = [name for column in table.header[1:] for name in ((column, f"{column} sd") if has_spread else (column,))]
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow([table.header[0], *names])
    for label, cells in table.lines:
        writer.writerow([label, *(text for cell in cells for text in _csv_fields(cell, has_spread))])
    return target.getvalue()


def as_latex(table: Table) -> str:
    """A tabular of LaTeX (with the package booktabs); title and notes are comments."""
    lines = [[_escaped(label), *map(_latex, cells)] for label, cells in table.lines]
    head, *body = [" & ".join(line) + r" \\" for line in (map(_escaped, table.header), *lines)]
    comments = [f"% {text}" for text in (table.title, *table.notes)]
    columns = "l" + "r" * (len(table.header) - 1)
    parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*comments, *parts]) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {"text": as_text, "markdown": as_markdown, "csv": as_csv, "latex": as_latex}


def _plain(cell: Cell) -> str:
    if cell.value is None:
        return cell.mark
    return f"{cell.value:.2f}" + (f" ±{cell.spread:.2f}" if cell.spread is not None else "")


def _csv_fields(cell: Cell, has_spread: bool) -> list[str]:
    value = cell.mark if cell.value is None else f"{cell.value:.2f}"
    spread = "" if cell.spread is None else f"{cell.spread:.2f}"
    return [value, spread] if has_spread else [value]


def _latex(cell: Cell) -> str:
    if cell.value is None:
        return cell.mark if cell.mark != "-" else "--"
    return f"{cell.value:.2f}" + (rf" $\pm$ {cell.spread:.2f}" if cell.spread is not None else "")


def _escaped(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text
