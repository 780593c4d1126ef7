"""The page of a file of score rows, such as ``selfguide evaluate`` writes."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from selfguide.report.charts import Line, heat_map, path_chart
from selfguide.report.page import Block, Cell, Chart, ChartRow, DataTable, Page, Section
from selfguide.scores import ScoreRow, read_scores
from selfguide.tables import Cell as Number
from selfguide.tables import Table, line_labels, score_tables, sweep_tables


def scores_page(path: Path) -> Page:
    """Tables of all rows, heat maps of layer sweeps, and the plane of alignment and uniformity.

    Raises:
        InputError: when the file holds something else than score rows.
    """
    rows = read_scores(path)
    sweeps = _sweeps(rows)
    swept = {id(row) for found in sweeps.values() for row in found}
    others = [row for row in rows if id(row) not in swept]
    sections = [Section(table.title, (as_data_table(table),)) for table in score_tables(others)]
    if sweeps:
        maps = tuple(chart for model, found in sweeps.items() for chart in layer_maps(model, found))
        sections.append(Section("Layers and poolings", (ChartRow(maps),)))
    sections += _geometry(others)
    embedders = len({row.embedder for row in others} | set(sweeps))
    return Page(f"Scores: {path.name}", f"{len(rows)} numbers of {embedders} embedders", tuple(sections))


def layer_maps(name: str, rows: Sequence[ScoreRow]) -> list[Chart]:
    """A heat map of layer and pooling for each data set of a sweep."""
    return [
        heat_map(
            f"{name}: {table.title}",
            [label for label, _ in table.lines],
            table.header[1:],
            [[cell.value for cell in cells] for _, cells in table.lines],
            x="layer",
            y="pooling",
        )
        for table in sweep_tables(rows)
    ]


def as_data_table(table: Table) -> DataTable:
    """A table of scores as one of a page."""
    lines = tuple((Cell(label), *map(_cell, cells)) for label, cells in table.lines)
    return DataTable(table.title, table.header, lines, table.notes)


def _cell(cell: Number) -> Cell:
    if cell.value is None:
        return Cell(cell.mark)
    spread = "" if cell.spread is None else f" ±{cell.spread:.2f}"
    return Cell(f"{cell.value:.2f}{spread}", value=cell.value)


def _sweeps(rows: Sequence[ScoreRow]) -> dict[str, list[ScoreRow]]:
    """Model -> the rows of its sweep; with a part of the hash of its weights where several have one name."""
    of_model: dict[str, dict[str, list[ScoreRow]]] = {}
    for row in rows:
        if row.protocol.get("swept"):
            name, weights = row.embedder.rpartition("/")[0], str(row.protocol["weights"])
            of_model.setdefault(name, {}).setdefault(weights, []).append(row)
    return {
        name + (f" ({weights[:6]})" if len(of_weights) > 1 else ""): found
        for name, of_weights in of_model.items()
        for weights, found in of_weights.items()
    }


def _geometry(rows: Sequence[ScoreRow]) -> list[Section]:
    chosen = [row for row in rows if row.metric in ("alignment", "uniformity")]
    labels = line_labels(chosen)
    values: dict[tuple[str, str], list[float]] = {}
    for row in chosen:
        values.setdefault((labels[id(row)], row.metric), []).append(row.value)
    lines = [
        Line(label, ((mean(values[label, "uniformity"]), mean(found)),))
        for (label, metric), found in values.items()
        if metric == "alignment" and (label, "uniformity") in values
    ]
    chart = path_chart("Alignment and uniformity, both better when lower", lines, x="uniformity", y="alignment")
    blocks: tuple[Block, ...] = (ChartRow((chart,)),) if chart else ()
    return [Section("Alignment and uniformity", blocks)] if blocks else []
