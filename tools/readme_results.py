"""Writes the result table of the README and its picture from ``results/``: ``make readme``."""

import html
import sys
from collections.abc import Sequence
from pathlib import Path

from selfguide.experiments.comparison import ComparedCell, ComparedRow, compare_with_paper
from selfguide.experiments.results import ResultFolder
from selfguide.experiments.specs import read_spec
from selfguide.files import write_text

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- results: made by `make readme` -->", "<!-- end of results -->"
PICTURE = "docs/results.svg"
SHOWN = ("cls", "mean", "wk", "flow", "simcse", "sg", "sg-opt", "prompted")


def main() -> None:
    """Rewrite the README and the picture."""
    readme = ROOT / "README.md"
    write_text(readme, with_results(readme.read_text(encoding="utf-8"), ROOT / "results"))
    write_text(ROOT / PICTURE, picture(shown_rows(ROOT / "results")))


def shown_rows(results: Path) -> list[ComparedRow]:
    """The lines of table 1 that the README shows: those of BERT-base."""
    rows = compare_with_paper(read_spec("table1"), ResultFolder(results))
    by_method = {compared.row.method: compared for compared in rows if compared.row.encoder == "BERT-base"}
    return [by_method[method] for method in SHOWN]


def with_results(readme: str, results: Path) -> str:
    """The text of the README with the table in its place."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"README.md needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table(shown_rows(results))}{END}{after}"


def table(rows: Sequence[ComparedRow]) -> str:
    """A table of Markdown: STS-B and the average of the seven sets, the paper's and ours."""
    lines = ["| BERT-base, 7 STS sets | paper, STS-B | ours, STS-B | paper, average | ours, average | seeds |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for compared in rows:
        cells = [compared.cells["STS-B"], compared.cells["Avg"]]
        figures = [text for cell in cells for text in (_paper(cell), _ours(cell))]
        seeds = str(len(cells[1].values)) if compared.row.seeds else "-"
        lines.append(f"| {compared.row.label} | {' | '.join(figures)} | {seeds} |")
    return "\n".join(lines) + "\n"


def _paper(cell: ComparedCell) -> str:
    if cell.paper is None:
        return "-"
    return f"{cell.paper.value:.2f}" + (f" ± {cell.paper.spread:.2f}" if cell.paper.spread is not None else "")


def _ours(cell: ComparedCell) -> str:
    if cell.mean is None:
        return "-"
    return f"{cell.mean:.2f}" + (f" ± {cell.spread:.2f}" if cell.spread is not None else "")


LEFT, WIDTH, LINE, LOW, HIGH = 250, 560, 30, 20, 80
"""Of the picture: where the axis begins, its length, the height of a line, and the range of the axis."""

STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #24292f }
  .axis { stroke: #8c959f; stroke-width: 1 }
  .paper { fill: none; stroke: #8250df; stroke-width: 2 }
  .ours { fill: #0969da } .spread { stroke: #0969da; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .paper { stroke: #d2a8ff } .ours { fill: #58a6ff } .spread { stroke: #58a6ff }
  }
"""


def picture(rows: Sequence[ComparedRow]) -> str:
    """An SVG: for each system a ring for the paper's average and a dot for ours, with its standard deviation."""
    height = LINE * (len(rows) + 2)
    marks = [_axis(height)]
    for number, compared in enumerate(rows):
        y = LINE * (number + 1)
        marks.append(f'<text x="{LEFT - 12}" y="{y + 5}" text-anchor="end">{html.escape(compared.row.label)}</text>')
        marks.append(_marks(compared.cells["Avg"], y))
    title = "Average of seven STS sets, BERT-base: the paper (rings) and ours (dots, with standard deviation over seeds)"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 70} {height}" role="img">'
    return "\n".join([head, f"<title>{title}</title>", f"<style>{STYLE}</style>", *marks, "</svg>"]) + "\n"


def _axis(height: int) -> str:
    ticks = [
        f'<line class="axis" x1="{_x(value):.1f}" x2="{_x(value):.1f}" y1="14" y2="{height - 34}" opacity="0.3"/>'
        f'<text x="{_x(value):.1f}" y="{height - 14}" text-anchor="middle">{value}</text>'
        for value in range(LOW, HIGH + 1, 10)
    ]
    return "\n".join(ticks)


def _marks(cell: ComparedCell, y: int) -> str:
    found = []
    if cell.mean is not None:
        if cell.spread is not None:
            low, high = _x(cell.mean - cell.spread), _x(cell.mean + cell.spread)
            found.append(f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>')
        found.append(f'<circle class="ours" cx="{_x(cell.mean):.1f}" cy="{y}" r="5"/>')
        found.append(f'<text x="{LEFT + WIDTH + 14}" y="{y + 5}">{cell.mean:.2f}</text>')
    if cell.paper is not None:
        found.append(f'<circle class="paper" cx="{_x(cell.paper.value):.1f}" cy="{y}" r="8"/>')
    return "\n".join(found)


def _x(value: float) -> float:
    return LEFT + WIDTH * (value - LOW) / (HIGH - LOW)


if __name__ == "__main__":
    main()
