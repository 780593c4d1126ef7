"""What all charts share: how they look, and how many points they hold.

A colour is the name of a CSS variable, which the page fills in, so that charts follow light and dark.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

COLOURS = tuple(f"var(--c{n})" for n in range(1, 9))
MOST_POINTS = 400
"""Of a line; of a longer one, points at equal distances are kept."""

Point = tuple[float, float]


def layout(x: str, y: str) -> dict[str, Any]:
    """Layout of a figure whose axes have these names; legends are those of the page, which fit a phone too."""
    axis = {"gridcolor": "var(--line)", "zerolinecolor": "var(--line)", "linecolor": "var(--line)", "automargin": True}
    label = {"align": "left", "bgcolor": "var(--raised)", "bordercolor": "var(--line)", "font": {"color": "var(--ink)"}}
    return {
        "autosize": True,
        "height": 340,
        "margin": {"l": 48, "r": 12, "t": 12, "b": 40},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--ink)", "size": 12, "family": "system-ui, sans-serif"},
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": label,
        "xaxis": {**axis, "title": {"text": plain(x), "standoff": 6}},
        "yaxis": {**axis, "title": {"text": plain(y), "standoff": 6}},
    }


def plain(text: str) -> str:
    """A text that plotly shows as it is: it reads simple HTML, but does not know the escapes of quotes."""
    return escape(text, quote=False)


def thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    """Finite points, so few that a page stays small; the last one is always among them."""
    finite = [point for point in points if all(map(math.isfinite, point))]
    every = max(1, math.ceil(len(finite) / MOST_POINTS))
    return tuple(finite[(len(finite) - 1) % every :: every]) if finite else ()


def short(value: float) -> float:
    """Five digits, which is more than a chart can show."""
    return float(f"{value:.5g}")
