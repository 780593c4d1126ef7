"""Tables are functions of rows: an embedder a line, a data set a column, in the order of the paper."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, final

from selfguide.scores import ScoreRow


@final
@dataclass(frozen=True)
class Column:
    """Where the numbers of a column come from."""

    dataset: str
    metric: str
    label: str = ""
    """The data set's name by default."""


@final
@dataclass(frozen=True)
class Layout:
    """The columns of one kind of table."""

    title: str
    columns: tuple[Column, ...]
    splits: tuple[str, ...] = ()
    """Splits that rows must be of, where the names of data sets do not tell them apart."""


@final
@dataclass(frozen=True)
class Cell:
    """A number, its standard deviation over seeds where there are several; or a mark, where there is no number."""

    value: float | None = None
    spread: float | None = None
    mark: str = "-"


@final
@dataclass(frozen=True)
class Table:
    """A table that is ready to be written in some format."""

    title: str
    header: tuple[str, ...]
    """Of the lines' labels, then of the columns."""
    lines: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Label and cells of each line."""
    notes: tuple[str, ...] = ()


_SEVEN = ("STS-B", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS16", "Avg")
_MULTILINGUAL = ("SemEval2014-es", "SemEval2017-ar-ar", "SemEval2017-es-es", "SemEval2017-en-en")
_SENTEVAL = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC", "Avg")
_GEOMETRY = ("alignment", "uniformity", "mean_cosine", "partition_isotropy")


def _columns(datasets: Iterable[str], metric: str) -> tuple[Column, ...]:
    return tuple(Column(dataset, metric) for dataset in datasets)


LAYOUTS = (
    Layout("STS: cosine, Spearman x100", _columns(_SEVEN, "spearman")),
    Layout("Multilingual STS: cosine, Pearson x100", _columns(_MULTILINGUAL, "pearson")),
    Layout(
        "GLUE: accuracy x100, Matthews x100 (CoLA), F1 x100 (MRPC)",
        (
            *_columns(("QNLI", "SST-2"), "accuracy"),
            Column("CoLA", "matthews"),
            Column("MRPC", "f1"),
            Column("RTE", "accuracy"),
        ),
        splits=("validation-last-90%",),
    ),
    Layout("SentEval: accuracy x100", _columns(_SENTEVAL, "accuracy"), splits=("cv", "test", "mixed")),
    Layout("Geometry on STS-B", tuple(Column("STS-B", metric, label=metric.replace("_", " ")) for metric in _GEOMETRY)),
)
"""The tables that there can be, in the order in which they are shown."""

PEARSON = Layout("STS: cosine, Pearson x100", _columns(_SEVEN, "pearson"))
"""In the place of the first layout, on request."""

_SYSTEM = "system"
_CHOICES = ("aggregation", "split", "text", "max_length", "hidden")
"""Choices of the protocol that are told below a table, and that keep the lines of one embedder apart."""


def score_tables(rows: Sequence[ScoreRow], *, missing: Collection[str] = (), pearson: bool = False) -> list[Table]:
    """The tables of rows: mean and standard deviation over seeds in a cell; of rows with one seed the last one counts.

    Systems of one name that are not seeds of each other have lines of their own.

    Args:
        rows: Of any embedders and data sets.
        missing: Data sets that were asked for and could not be scored; their cells say so.
        pearson: Show Pearson's correlation on the seven STS sets in place of Spearman's.
    """
    layouts = (PEARSON, *LAYOUTS[1:]) if pearson else LAYOUTS
    known = {column.dataset for layout in LAYOUTS for column in layout.columns}
    others = dict.fromkeys((row.dataset, row.metric) for row in rows if row.dataset not in known)
    columns = tuple(Column(dataset, metric, label=f"{dataset} {metric}") for dataset, metric in others)
    tables = [_table(layout, rows, missing) for layout in (*layouts, Layout("Other pairs: cosine, x100", columns))]
    return [table for table in tables if table.lines]


def sweep_tables(rows: Sequence[ScoreRow], *, metric: str = "spearman") -> list[Table]:
    """For each data set a table of rows that differ in layer and pooling: a pooling a line, a layer a column."""
    tables = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        chosen = [row for row in rows if (row.dataset, row.metric) == (dataset, metric)]
        if not chosen:
            continue
        cells = {(row.protocol["pooling"], row.protocol["layers"][0]): Cell(row.value) for row in chosen}
        layers = range(max(layer for _, layer in cells) + 1)
        lines = tuple(
            (pooling, tuple(cells.get((pooling, layer), Cell()) for layer in layers))
            for pooling in dict.fromkeys(pooling for pooling, _ in cells)
        )
        notes = (*_notes(chosen), "-: not defined, the embedding of the first token is the same for every sentence")
        title = f"{dataset}: cosine, {metric.capitalize()} x100 of every layer (0: embeddings)"
        tables.append(Table(title, ("layer", *map(str, layers)), lines, notes))
    return tables


def _table(layout: Layout, rows: Sequence[ScoreRow], missing: Collection[str]) -> Table:
    places = {(column.dataset, column.metric) for column in layout.columns}
    chosen = [row for row in rows if (row.dataset, row.metric) in places and row.split in (layout.splits or (row.split,))]
    scored = {(row.dataset, row.metric) for row in chosen}
    columns = [column for column in layout.columns if (column.dataset, column.metric) in scored or column.dataset in missing]
    labels = line_labels(chosen)
    lines = tuple(
        (line, tuple(_cell(column, [row for row in chosen if labels[id(row)] == line], missing) for column in columns))
        for line in dict.fromkeys(labels.values())
    )
    header = ("embedder", *(column.label or column.dataset for column in columns))
    return Table(layout.title, header, lines, _notes(chosen))


def _cell(column: Column, rows: Sequence[ScoreRow], missing: Collection[str]) -> Cell:
    own = [row for row in rows if (row.dataset, row.metric) == (column.dataset, column.metric)]
    values = list({(row.seed, row.protocol.get("evaluation_seed")): row.value for row in own}.values())
    if not values:
        return Cell(mark="missing") if column.dataset in missing else Cell()
    return Cell(mean(values), stdev(values) if len(values) > 1 else None)


def line_labels(rows: Sequence[ScoreRow]) -> dict[int, str]:
    """Id of each row -> label of its line: the embedder, and what tells its rows for one number apart but for the seed."""
    labels = {}
    for embedder in dict.fromkeys(row.embedder for row in rows):
        own = [row for row in rows if row.embedder == embedder]
        apart = [choice for choice in (_SYSTEM, *_CHOICES) if _varies(own, choice)]
        for row in own:
            details = ", ".join(f"{choice} {_choice(row, choice)}" for choice in apart)
            star = "*" if row.protocol.get("selected_by_labels") else ""
            labels[id(row)] = embedder + star + (f" ({details})" if details else "")
    return labels


def _varies(rows: Sequence[ScoreRow], choice: str) -> bool:
    seen: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        seen.setdefault((row.dataset, row.metric), set()).add(str(_choice(row, choice)))
    return any(len(values) > 1 for values in seen.values())


def _choice(row: ScoreRow, choice: str) -> Any:  # noqa: ANN401 - a value of the protocol
    if choice == _SYSTEM:
        return _system(row)
    return row.split if choice == "split" else row.protocol.get(choice)


def _system(row: ScoreRow) -> str | None:
    """Short hash of what was trained, the same for all seeds, or else of the weights; None where nothing tells."""
    is_seed = "training_seed" in row.protocol
    found = row.protocol.get("training_recipe" if is_seed else "weights")
    return None if found is None else str(found)[:6]


def _notes(rows: Sequence[ScoreRow]) -> tuple[str, ...]:
    """The protocol of the rows, where they agree, and where not, of which data sets."""
    parts = []
    for choice in _CHOICES:
        datasets: dict[str, list[str]] = {}
        for row in rows:
            if _choice(row, choice) is not None and "mean_of" not in row.protocol:
                datasets.setdefault(str(_choice(row, choice)), []).append(row.dataset)
        told = [f"{value} ({', '.join(dict.fromkeys(names))})" for value, names in datasets.items()]
        if datasets:
            parts.append(f"{choice.replace('_', ' ')} {next(iter(datasets)) if len(datasets) == 1 else ', '.join(told)}")
    notes = ["; ".join(parts)] if parts else []
    by_hamming = dict.fromkeys(row.embedder for row in rows if row.protocol.get("similarity") == "hamming")
    if by_hamming:
        notes.append(f"{', '.join(by_hamming)}: by Hamming distance")
    if any(row.protocol.get("selected_by_labels") for row in rows):
        notes.append("*: labelled pairs selected the checkpoint")
    return tuple(notes)
