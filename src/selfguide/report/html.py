"""A page as one HTML file that loads nothing: styles, scripts, charts and the chart library are inside."""

import base64
import gzip
import json
import logging
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from selfguide.environment import package_versions
from selfguide.report.page import Block, Cell, Chart, ChartRow, DataTable, Folded, Key, Page, Section

logger = logging.getLogger(__name__)


def render(page: Page) -> str:
    """The file."""
    return Template(_asset("page.html")).substitute(
        title=escape(page.title),
        subtitle=escape(page.subtitle),
        version=package_versions()["selfguide"] or "",
        style=_asset("page.css"),
        script=_asset("page.js"),
        plotly=_packed_plotly() if _has_charts(page) else "",
        contents=_joined(_entry(number, section) for number, section in enumerate(page.sections)),
        sections=_joined(_section(number, section) for number, section in enumerate(page.sections)),
    )


@cache
def _asset(name: str) -> str:
    return (files("selfguide") / "report" / "assets" / name).read_text(encoding="utf-8")


@cache
def _packed_plotly() -> str:
    """The library as compressed text: 2 MB in the place of 4.8; nothing where it is missing, which must not cost a run."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        logger.warning("plotly is not installed, so a report shows no charts, only their data; pip install plotly")
        return ""
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def _has_charts(page: Page) -> bool:
    def found(blocks: Iterable[Block]) -> bool:
        return any(isinstance(block, ChartRow) or (isinstance(block, Folded) and found(block.blocks)) for block in blocks)

    return any(found(section.blocks) for section in page.sections)


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)


def _anchor(number: int) -> str:
    return f"section-{number + 1}"


def _entry(number: int, section: Section) -> str:
    return f'<li><a href="#{_anchor(number)}">{escape(section.short or section.title)}</a></li>'


def _section(number: int, section: Section) -> str:
    return f'<section id="{_anchor(number)}">\n<h2>{escape(section.title)}</h2>\n{_blocks(section.blocks)}\n</section>'


def _blocks(blocks: Iterable[Block]) -> str:
    return _joined(map(_block, blocks))


def _block(block: Block) -> str:
    match block:
        case str():
            return f"<p>{escape(block)}</p>"
        case DataTable():
            return _table(block)
        case ChartRow():
            return f'<div class="charts">{_joined(map(_chart, block.charts))}</div>'
        case Folded():
            return f"<details><summary>{escape(block.summary)}</summary>\n{_blocks(block.blocks)}\n</details>"


def _chart(chart: Chart) -> str:
    height = chart.figure["layout"]["height"]  # known before it is drawn, so that nothing moves then
    return f"""<figure>
<figcaption>{escape(chart.title)}</figcaption>
<div class="plot" role="img" aria-label="{escape(chart.description)}" style="height: {height}px"></div>
<script type="application/json">{_json(chart.figure)}</script>
{_legend(chart.legend)}<details><summary>Data of this chart</summary>
<p>{escape(chart.description)}</p>
{_table(chart.data)}
</details>
</figure>"""


def _legend(keys: tuple[Key, ...]) -> str:
    entries = _joined(
        f'<li><button type="button" aria-pressed="true">{_sign(key)} {escape(key.name)}</button></li>' for key in keys
    )
    return f'<ul class="legend">{entries}</ul>\n' if keys else ""


def _sign(key: Key) -> str:
    if key.mark in ("solid", "dashed", "dotted"):
        return f'<i class="line" style="border-color: {key.colour}; border-style: {key.mark}"></i>'
    return f'<i style="color: {key.colour}">{escape(key.mark)}</i>'


def _json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """JSON for inside of a script element, which a ``<`` in a text must not end."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _table(table: DataTable) -> str:
    head = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in table.header)
    body = _joined(_line(line) for line in table.lines)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    return f"""<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.caption)}"><table>
<caption>{escape(table.caption)}</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody></table></div>{notes}"""


def _line(cells: tuple[Cell, ...]) -> str:
    first, *others = cells
    return f'<tr><th scope="row"{_filled(first)}</th>{"".join(f"<td{_filled(cell)}</td>" for cell in others)}</tr>'


def _filled(cell: Cell) -> str:
    """The rest of the tag that opens a cell, and what is inside."""
    sorted_by = "" if cell.value is None else f' data-value="{cell.value:.6g}"'
    mark = f' class="{cell.mark}"' if cell.mark else ""
    details = "".join(f"<small>{escape(line)}</small>" for line in cell.details)
    return f"{sorted_by}{mark}>{escape(cell.text)}{details}"
