"""The page of a folder of results: every line of every table and figure, the paper's figures beside ours."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from selfguide.data.pairs import ScoredPairs, read_pairs
from selfguide.experiments.comparison import WITHIN, ComparedCell, ComparedRow, compare_with_paper
from selfguide.experiments.results import Result, ResultFolder
from selfguide.experiments.specs import MEASURES, Spec, read_spec, spec_names
from selfguide.report.charts import Line, line_chart, plane
from selfguide.report.page import Block, Cell, Chart, ChartRow, DataTable, Folded, Page, Section, number
from selfguide.report.rows import layer_maps
from selfguide.report.sentence_map import sentence_map

LEGEND = (
    "Mean ± standard deviation of ours over seeds; n: runs. Within: the paper's figure lies within "
    f"{WITHIN:g} standard errors of ours (standard deviation / √n); beyond: it does not. A single run has no verdict."
)
DRAWN = ("sweep", "map")
"""Measures that give no number for a cell: they are charts."""
LEVELS = ("sg", "sg-opt", "prompted")
"""Methods that figure 1 shows as level lines."""
UNJUDGED = ("cost",)
"""Measures that depend on the machine, so that a verdict would say nothing."""


def is_result_folder(folder: Path) -> bool:
    """Whether a folder holds result files."""
    return any(next((folder / measure).glob("*/*.json"), None) for measure in MEASURES)


def results_page(folder: Path, *, data: Path | None = None) -> Page:
    """The page of a folder of results.

    Args:
        folder: Holds the result files.
        data: A data folder, for the sentences of the maps: results name their lines alone.

    Raises:
        InputError: when a result file or the data is broken.
    """
    results = ResultFolder(folder)
    pairs = read_pairs(data / "sts" / "STS-B" / "dev.tsv") if data else None
    compared = [(spec, compare_with_paper(spec, results)) for spec in map(read_spec, spec_names())]
    own = [row for _, rows in compared for row in rows if not row.row.is_quoted]
    measured = sum(row.state == "measured" for row in own)
    drawn: set[tuple[str, str]] = set()
    return Page(
        "Self-guided contrastive learning: the paper's tables and figures, and ours",
        f"{measured} of {len(own)} lines are measured. {LEGEND}",
        (
            Section("Overview", (_overview(compared),)),
            *(
                Section(spec.title, _blocks(spec, rows, drawn, _own_charts(spec, rows, compared, pairs)), _short(spec.title))
                for spec, rows in compared
            ),
        ),
    )


def _short(title: str) -> str:
    """Such as ``Table 1``."""
    return title.partition(":")[0].partition(",")[0]


def _overview(compared: Sequence[tuple[Spec, Sequence[ComparedRow]]]) -> DataTable:
    lines = []
    for spec, rows in compared:
        own = [row for row in rows if not row.row.is_quoted]
        verdicts = Counter(_verdict(spec, cell) for row in own for cell in _cells(spec, row).values())
        judged = verdicts["within"] + verdicts["beyond"]
        share = Cell(f"{verdicts['within']} of {judged}", value=verdicts["within"] / judged) if judged else Cell("")
        measured = sum(row.state == "measured" for row in own)
        title = Cell(_short(spec.title), (spec.title.removeprefix(_short(spec.title)).strip(":, "),))
        lines.append((title, Cell(f"{measured} of {len(own)}", value=measured / max(1, len(own))), share))
    return DataTable("What is here", ("table or figure", "lines measured", "cells within two standard errors"), tuple(lines))


def _blocks(
    spec: Spec, rows: Sequence[ComparedRow], drawn: set[tuple[str, str]], own_charts: Sequence[Chart]
) -> tuple[Block, ...]:
    """Table, charts and provenance of a section; ``drawn`` are the systems whose training curves were shown before."""
    charts = [*own_charts, *_training_charts(rows, drawn)]
    made = _provenance(rows)
    return (
        *([spec.note] if spec.note else []),
        _table(spec, rows),
        *([ChartRow(tuple(charts))] if charts else []),
        *([Folded("Where these numbers come from", (made,))] if made.lines else []),
    )


def _cells(spec: Spec, row: ComparedRow) -> Mapping[str, ComparedCell]:
    return {} if spec.measure in DRAWN else row.cells


def _table(spec: Spec, rows: Sequence[ComparedRow]) -> DataTable:
    columns = () if spec.measure in DRAWN else spec.columns
    lines = [
        (_system(row, _state(spec, row)), *(_compared_cell(spec, cell) for cell in _cells(spec, row).values()))
        for row in rows
    ]
    return DataTable(spec.title, ("system", *columns), tuple(lines))


def _system(row: ComparedRow, *details: str) -> Cell:
    """Label, encoder, and what else there is to tell about the line."""
    return Cell(row.row.label, (*([row.row.encoder] if row.row.encoder else []), *details))


def _compared_cell(spec: Spec, cell: ComparedCell) -> Cell:
    """Ours; below it the paper's figure, the difference and the verdict."""
    verdict = _verdict(spec, cell)
    paper = [] if cell.paper is None else [f"paper {_with_spread(cell.paper.value, cell.paper.spread)}"]
    told = [] if cell.difference is None else [f"{_signed(cell.difference)} {verdict}".strip()]
    if cell.mean is None:
        return Cell("-", tuple(paper))
    return Cell(_with_spread(cell.mean, cell.spread), (*paper, *told), value=cell.mean, mark=verdict)


def _signed(difference: float) -> str:
    return f"{round(difference, 2) + 0.0:+.2f}"  # + 0.0: no -0.00


def _with_spread(value: float, spread: float | None) -> str:
    return f"{value:.2f}" + ("" if spread is None else f" ±{spread:.2f}")


def _verdict(spec: Spec, cell: ComparedCell) -> str:
    if spec.measure in UNJUDGED or cell.is_within is None:
        return ""
    return "within" if cell.is_within else "beyond"


def _state(spec: Spec, row: ComparedRow) -> str:
    """The number of runs and how many cells are within; or why there are no numbers."""
    if row.state != "measured":
        return row.state
    verdicts = Counter(_verdict(spec, cell) for cell in _cells(spec, row).values())
    judged = verdicts["within"] + verdicts["beyond"]
    runs = f"n = {sum(result.is_measured for result in row.results)}"
    return f"{runs}, {verdicts['within']} of {judged} within" if judged else runs


Compared = Sequence[tuple[Spec, Sequence[ComparedRow]]]


def _own_charts(spec: Spec, rows: Sequence[ComparedRow], compared: Compared, pairs: ScoredPairs | None) -> list[Chart]:
    """What a figure of the paper shows: of each line its first result."""
    if spec.measure not in DRAWN:
        return []
    charts: list[Chart | None] = []
    for row in rows:
        for result in [result for result in row.results if result.is_measured][:1]:
            if spec.measure == "sweep":
                charts += [_layer_lines(row, result, compared), *layer_maps(row.row.encoder, result.score_rows)]
            elif result.artefacts.get("map"):
                groups = [_with_sentences(group, pairs) for group in result.artefacts["map"]]
                charts.append(sentence_map(f"{row.row.encoder}: {row.row.label}", groups))
    return [chart for chart in charts if chart]


def _layer_lines(row: ComparedRow, result: Result, compared: Compared) -> Chart | None:
    """STS-B by layer, a line for each pooling; the encoder after training, which has one number, is a level line."""
    points: dict[str, list[tuple[float, float]]] = {}
    for score in result.score_rows:
        if score.metric == "spearman":
            points.setdefault(score.protocol["pooling"], []).append((score.protocol["layers"][0], score.value))
    lines = [Line(pooling, tuple(sorted(own))) for pooling, own in points.items()]
    last = max(layer for own in points.values() for layer, _ in own)
    for other in next(rows for spec, rows in compared if spec.name == "table1"):
        value = other.cells["STS-B"].mean
        if other.row.encoder == row.row.encoder and other.row.method in LEVELS and value is not None:
            lines.append(Line(other.row.label, ((0, value), (last, value))))
    return line_chart(f"{row.row.encoder}: STS-B by layer", lines, x="layer", y="Spearman x100")


def _with_sentences(group: Mapping[str, Any], pairs: ScoredPairs | None) -> Mapping[str, Any]:
    if pairs is None:
        return group
    position = group["line"] - 1
    return {**group, "sentences": [pairs.sentences1[position], pairs.sentences2[position]]}


def _training_charts(rows: Sequence[ComparedRow], drawn: set[tuple[str, str]]) -> list[Chart]:
    """Dev scores, and the way through the plane, of the systems of each encoder that were not drawn before."""
    of_encoder: dict[str, list[ComparedRow]] = {}
    for row in rows:
        key = (row.row.encoder, row.row.method)
        if key not in drawn and any(result.curve for result in row.results):
            drawn.add(key)
            of_encoder.setdefault(row.row.encoder, []).append(row)
    charts: list[Chart | None] = []
    for encoder, trained in of_encoder.items():
        name = encoder if len(trained) > 1 else f"{encoder}, {trained[0].row.label}"
        lines = [
            Line(row.row.label, tuple((point["step"], point["dev"]) for point in result.curve if "dev" in point), run)
            for row in trained
            for run, result in _runs(row)
        ]
        charts.append(line_chart(f"{name}: dev score while training", lines, x="step", y="dev"))
        first = {row.row.label: _runs(row)[0][1].curve for row in trained}
        charts.append(plane(f"{name}: alignment and uniformity of the batches (first seed)", first))
    return [chart for chart in charts if chart]


def _runs(row: ComparedRow) -> list[tuple[str, Result]]:
    return [(f"seed {result.recipe['seed']}", result) for result in row.results if result.curve]


def _provenance(rows: Sequence[ComparedRow]) -> DataTable:
    header = ("system", "commit", "hardware", "versions", "training s", "total s")
    lines = [
        (
            _system(row),
            *(Cell(_distinct(part(result) for result in measured)) for part in (_commit, _hardware, _versions)),
            _mean_seconds(measured, "training"),
            _mean_seconds(measured, "total"),
        )
        for row in rows
        if (measured := [result for result in row.results if result.is_measured])
    ]
    return DataTable("Commit, hardware, versions and mean seconds of a run", header, tuple(lines))


def _distinct(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _commit(result: Result) -> str:
    return "" if result.commit is None else result.commit[:10] + ("-dirty" if result.commit.endswith("-dirty") else "")


def _hardware(result: Result) -> str:
    environment = result.environment
    return str(environment.get("device_name") or f"{environment.get('device', '')}, {environment.get('cores', '?')} cores")


def _versions(result: Result) -> str:
    packages = result.environment.get("packages", {})
    chosen = {name: packages.get(name) for name in ("selfguide", "torch", "transformers", "sentence-transformers")}
    told = [f"{name} {version}" for name, version in chosen.items() if version]
    return ", ".join([f"Python {result.environment.get('python', '?')}", *told])


def _mean_seconds(results: Sequence[Result], name: str) -> Cell:
    found = [result.seconds[name] for result in results if name in result.seconds]
    return number(fmean(found) if found else None, 1)
