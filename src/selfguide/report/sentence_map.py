"""A map of sentences: points in a plane, those of a pair joined, the sentences on hover."""

import textwrap
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from selfguide.report.figures import COLOURS, layout, plain, short
from selfguide.report.page import Cell, Chart, DataTable, Key, number

Group = Mapping[str, Any]
"""``sentences`` (one, or the two of a pair), their ``points``, a ``kind`` such as ``positive``, the ``cosine`` of a pair."""

SYMBOLS = {"●": "circle", "◆": "diamond", "■": "square", "▲": "triangle-up", "★": "star"}
"""Character in the legend -> symbol in plotly."""
HOVER_WIDTH = 60
"""Characters of a line of text on hover."""
LONGEST_SENTENCE = 240
"""Characters of a sentence that are shown."""


def sentence_map(title: str, groups: Sequence[Group]) -> Chart:
    """Sentences whose vectors are alike are near each other; each kind of group has its colour and symbol."""
    of_kind: dict[str, list[Group]] = {}
    for group in groups:
        of_kind.setdefault(group["kind"], []).append(group)
    legend = tuple(Key(kind, COLOURS[n % len(COLOURS)], list(SYMBOLS)[n % len(SYMBOLS)]) for n, kind in enumerate(of_kind))
    traces = [_trace(of_kind[key.name], key, position) for position, key in enumerate(legend)]
    look = layout("", "")
    for axis in ("xaxis", "yaxis"):
        look[axis] |= {"visible": False}
    look["yaxis"] |= {"scaleanchor": "x"}
    look["margin"] = {"l": 8, "r": 8, "t": 8, "b": 8}
    count = sum(len(group["sentences"]) for group in groups)
    cosines = [text for kind, own in of_kind.items() if (text := _mean_cosine(kind, own))]
    lines = [(Cell(group["kind"]), number(group.get("cosine"), 3), *_sentences(group)) for group in groups]
    return Chart(
        title,
        " ".join([f"Map of {count} sentences; those with like vectors are near each other.", *cosines]),
        {"data": traces, "layout": look},
        DataTable(title, ("kind", "cosine", "sentence", "other sentence"), tuple(lines)),
        legend if len(legend) > 1 else (),
    )


def shortened(sentence: str) -> str:
    """The beginning of a long sentence."""
    return sentence if len(sentence) <= LONGEST_SENTENCE else sentence[: LONGEST_SENTENCE - 1] + "…"


def _trace(groups: Sequence[Group], key: Key, position: int) -> dict[str, Any]:
    """The points of one kind; a gap (None) after each group keeps the lines of pairs apart."""
    points = [point for group in groups for point in (*group["points"], (None, None))]
    return {
        "type": "scatter",
        "mode": "lines+markers" if any(len(group["points"]) > 1 for group in groups) else "markers",
        "name": plain(key.name),
        "legendgroup": str(position),
        "x": [None if x is None else short(x) for x, _ in points],
        "y": [None if y is None else short(y) for _, y in points],
        "text": [text for group in groups for text in (*_hover_texts(group), "")],
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"width": 1, "color": key.colour},
        "marker": {"size": 8, "color": key.colour, "symbol": SYMBOLS[key.mark]},
        "opacity": 0.85,
    }


def _hover_texts(group: Group) -> list[str]:
    """For each sentence: itself, the other one of its pair, and their cosine."""
    told = "" if group.get("cosine") is None else f"<br>{plain(group['kind'])}, cosine {group['cosine']:.3f}"
    wrapped = ["<br>".join(map(plain, textwrap.wrap(shortened(text), HOVER_WIDTH))) for text in group["sentences"]]
    return [
        "<br>".join([f"<b>{own}</b>", *(other for n, other in enumerate(wrapped) if n != position)]) + told
        for position, own in enumerate(wrapped)
    ]


def _mean_cosine(kind: str, groups: Sequence[Group]) -> str:
    cosines = [group["cosine"] for group in groups if group.get("cosine") is not None]
    return f"Mean cosine of {len(cosines)} {kind} pairs: {fmean(cosines):.3f}." if cosines else ""


def _sentences(group: Group) -> tuple[Cell, Cell]:
    first, second = [*map(shortened, group["sentences"]), ""][:2]
    return Cell(first), Cell(second)
