"""Charts of numbers as figures of plotly: plain dictionaries, each with a description and a table of the same numbers.

Plotly reads the texts of a figure as simple HTML, so those that come from outside are escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, final

from selfguide.report.figures import COLOURS, Point, layout, plain, short, thinned
from selfguide.report.page import Cell, Chart, DataTable, Key, number

DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot"}
"""Kind of a line on the page -> in plotly; it changes when the colours are used up."""
STRETCHES = 20
"""Parts of a run whose means make a path: single batches jump about."""


@final
@dataclass(frozen=True)
class Line:
    """A line of a chart."""

    name: str
    points: tuple[Point, ...]
    run: str = ""
    """Tells the lines of one name apart, such as ``seed 3``; they share a colour."""

    @property
    def full_name(self) -> str:
        """Name and run."""
        return f"{self.name}, {self.run}" if self.run else self.name


def line_chart(title: str, lines: Sequence[Line], *, x: str, y: str, digits: int = 2) -> Chart | None:
    """Values by step; None where there are none."""
    lines = _thinned(lines)
    if not lines:
        return None
    keys = _keys(lines)
    look = {"marker": {"size": 4}, "opacity": 0.75}
    traces = [
        {**_trace(line, keys, f"{x} %{{x}}: %{{y}}"), **look, "mode": "lines+markers" if len(line.points) < 30 else "lines"}
        for line in lines
    ]
    ends = "; ".join(_mean_ends([line for line in lines if line.name == name], digits) for name in keys)
    description = f"Line chart of {y} by {x}, from the first value to the last. {ends}."
    figure = {"data": traces, "layout": layout(x, y)}
    return Chart(title, description, figure, _by_step(title, lines, x, digits), _legend(keys))


def path_chart(title: str, lines: Sequence[Line], *, x: str, y: str) -> Chart | None:
    """Ways through a plane, each from an open mark to a full one; a single point is a full mark. None without any."""
    lines = _thinned(lines)
    if not lines:
        return None
    keys = _keys(lines)
    traces = [
        {**_trace(line, keys, f"{x} %{{x}}<br>{y} %{{y}}"), "mode": "lines+markers", "marker": _end_marks(len(line.points))}
        for line in lines
    ]
    ends = "; ".join(f"{line.full_name}: {_ends([f'({a:.3f}, {b:.3f})' for a, b in line.points])}" for line in lines)
    rows = tuple((Cell(line.full_name), number(a, 4), number(b, 4)) for line in lines for a, b in line.points)
    figure = {"data": traces, "layout": layout(x, y)}
    return Chart(title, f"Plane of {x} and {y}. {ends}.", figure, DataTable(title, ("", x, y), rows), _legend(keys))


def plane(title: str, rows_of: Mapping[str, Sequence[Mapping[str, float]]]) -> Chart | None:
    """The way of runs through the plane of uniformity and alignment, both better when lower; None without such monitors.

    Args:
        title: Of the chart.
        rows_of: Name of each run -> its monitors by step.
    """
    lines = [
        Line(name, tuple(_averaged([(row["uniformity"], row["alignment"]) for row in rows if "uniformity" in row])))
        for name, rows in rows_of.items()
    ]
    return path_chart(title, lines, x="uniformity", y="alignment")


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]], *, x: str, y: str
) -> Chart:
    """Numbers by colour, each also written out; None for those that are not defined."""
    lines = list(zip(rows, values, strict=True))
    found = [
        (value, f"{row}, {x} {column}")
        for row, line in lines
        for column, value in zip(columns, line, strict=True)
        if value is not None
    ]
    (low, lowest), (high, highest) = min(found), max(found)
    trace = {
        "type": "heatmap",
        "x": [plain(name) for name in columns],
        "y": [plain(name) for name in rows],
        "z": [[None if value is None else short(value) for value in line] for line in values],
        "texttemplate": "%{z:.0f}",
        "colorscale": "Viridis",
        "colorbar": {"thickness": 10, "outlinewidth": 0},
        "hovertemplate": f"{x} %{{x}}, %{{y}}: %{{z}}<extra></extra>",
        "xgap": 1,
        "ygap": 1,
    }
    look = layout(x, y)
    look["xaxis"] |= {"type": "category"}
    look["yaxis"] |= {"type": "category", "autorange": "reversed"}
    table = tuple((Cell(row), *map(number, line)) for row, line in lines)
    return Chart(
        title,
        f"Heat map by {x} and {y}. Highest: {high:.2f} ({highest}); lowest: {low:.2f} ({lowest}).",
        {"data": [trace], "layout": look},
        DataTable(title, (y, *columns), table),
    )


def _thinned(lines: Sequence[Line]) -> list[Line]:
    """Lines with few points; those without any are left out."""
    return [replace(line, points=points) for line in lines if (points := thinned(line.points))]


def _keys(lines: Sequence[Line]) -> dict[str, Key]:
    """Name -> entry of the legend."""
    kinds, names = tuple(DASHES), dict.fromkeys(line.name for line in lines)
    return {
        name: Key(name, COLOURS[n % len(COLOURS)], kinds[n // len(COLOURS) % len(kinds)]) for n, name in enumerate(names)
    }


def _legend(keys: Mapping[str, Key]) -> tuple[Key, ...]:
    """The entries; a single one tells nothing that the title does not."""
    return tuple(keys.values()) if len(keys) > 1 else ()


def _trace(line: Line, keys: Mapping[str, Key], hover: str) -> dict[str, Any]:
    key = keys[line.name]
    return {
        "type": "scatter",
        "name": plain(line.name),
        "legendgroup": str(list(keys).index(line.name)),
        "x": [short(a) for a, _ in line.points],
        "y": [short(b) for _, b in line.points],
        "line": {"width": 1.5, "color": key.colour, "dash": DASHES[key.mark]},
        "hovertemplate": f"{plain(line.full_name)}<br>{hover}<extra></extra>",
    }


def _end_marks(count: int) -> dict[str, Any]:
    """Marks that are large at the ends of a way, and open at its beginning."""
    if count == 1:
        return {"size": 9}
    return {
        "size": [9, *[3] * (count - 2), 9],
        "symbol": ["circle-open", *["circle"] * (count - 1)],
    }


def _averaged(points: Sequence[Point]) -> list[Point]:
    """Means of equal stretches."""
    size = max(1, len(points) // STRETCHES)
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [(fmean(a for a, _ in part), fmean(b for _, b in part)) for part in parts]


def _ends(texts: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys([texts[0], texts[-1]]))


def _mean_ends(lines: Sequence[Line], digits: int) -> str:
    """First and last value of lines of one name."""
    values = [fmean(line.points[end][1] for line in lines) for end in (0, -1)]
    runs = f" (means of {len(lines)} runs)" if len(lines) > 1 else ""
    return f"{lines[0].name}: {_ends([f'{value:.{digits}f}' for value in values])}{runs}"


def _by_step(title: str, lines: Sequence[Line], x: str, digits: int) -> DataTable:
    """A line of the table for each step, a column for each line of the chart."""
    values = [dict(line.points) for line in lines]
    steps = sorted({step for points in values for step in points})
    rows = [(Cell(f"{step:g}", value=step), *(number(points.get(step), digits) for points in values)) for step in steps]
    return DataTable(title, (x, *(line.full_name for line in lines)), tuple(rows))
