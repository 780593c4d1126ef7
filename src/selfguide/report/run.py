"""The page of a run of ``selfguide train``, from the record that lies beside its encoder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfguide.errors import InputError
from selfguide.files import read_json, read_json_lines, write_text
from selfguide.report.charts import Line, line_chart, plane
from selfguide.report.html import render
from selfguide.report.page import Block, Cell, ChartRow, DataTable, Folded, Page, Section, text_table
from selfguide.report.sentence_map import sentence_map, shortened
from selfguide.scores import ScoreRow, read_scores

MONITORS = {
    "dev": "Dev score (cosine Spearman x100)",
    "loss": "Loss",
    "accuracy": "In-batch accuracy",
    "spread": "Spread of the vectors (towards 0: collapse)",
}
"""Name in ``metrics.jsonl`` -> title of its chart."""


def write_run_page(record: Path) -> None:
    """Write ``report.html`` beside the other files of a run's record."""
    write_text(record / "report.html", render(run_page(record)))


def run_page(record: Path) -> Page:
    """The page of a run.

    Args:
        record: The folder ``selfguide`` inside of that of the encoder; what is missing there is missing on the page.

    Raises:
        InputError: when a file of the record is damaged.
    """
    try:
        config, summary = read_json(record / "config.json"), _optional(record / "summary.json", {})
        metrics = read_json_lines(record / "metrics.jsonl") if (record / "metrics.jsonl").is_file() else []
        near, mapped = (_optional(record / name, {}) for name in ("neighbours.json", "map.json"))
        environment = _optional(record / "environment.json", {})
    except (OSError, ValueError) as error:
        raise InputError(f"the record of a run in '{record}' cannot be read: {error}") from error
    scores = read_scores(record / "scores.jsonl") if (record / "scores.jsonl").is_file() else []
    try:
        return _page(config, summary, metrics, scores, near=near, mapped=mapped, environment=environment)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"the record of a run in '{record}' is damaged ({type(error).__name__}: {error})") from error


def _page(
    config: Mapping[str, Any],
    summary: Mapping[str, Any],
    metrics: list[dict[str, Any]],
    scores: list[ScoreRow],
    *,
    near: Any,  # noqa: ANN401 - any JSON value, as the others
    mapped: Any,  # noqa: ANN401
    environment: Any,  # noqa: ANN401
) -> Page:
    sections = (
        Section("Before and after", _before_and_after(scores, summary)),
        Section("Training", _training(metrics, summary.get("before"))),
        Section("Nearest sentences before and after", _neighbours(near)),
        Section("Map before and after", _maps(mapped)),
        Section("How it was made", _provenance(config, summary, environment)),
    )
    return Page(
        f"{Path(config['model']).name}, trained by {config['objective']}",
        _subtitle(summary),
        tuple(section for section in sections if section.blocks),
    )


def _optional(path: Path, default: Any) -> Any:  # noqa: ANN401 - any JSON value
    return read_json(path) if path.is_file() else default


def _subtitle(summary: Mapping[str, Any]) -> str:
    if not summary:
        return ""
    steps = f"{summary['steps_taken']:,} of {summary['steps_planned']:,} steps in {summary['seconds']:.0f} s"
    return f"{summary['data']}; {steps}; the weights of step {summary['kept_step']:,} were kept"


def _before_and_after(scores: Sequence[ScoreRow], summary: Mapping[str, Any]) -> tuple[Block, ...]:
    if not scores:
        return ("No graded pairs were given, so there is no score; no label had a part in this encoder.",) if summary else ()
    first: dict[tuple[str, str], float] = {}
    lines = []
    for row in scores:
        before = first.setdefault((row.dataset, row.metric), row.value)
        gain = Cell("", value=None) if row.value == before else Cell(f"{row.value - before:+.2f}", value=row.value - before)
        value = Cell(f"{row.value:.2f}", _interval(row), value=row.value)
        lines.append((Cell(row.embedder), Cell(f"{row.dataset} ({row.split})"), value, gain, Cell(_chosen(row))))
    header = ("embedder", "pairs", "cosine Spearman x100", "gain", "checkpoint")
    return (DataTable("Scores before and after", header, tuple(lines)),)


def _interval(row: ScoreRow) -> tuple[str, ...]:
    low, high = row.protocol.get("interval", (None, None))
    return () if low is None else (f"{low:.1f} to {high:.1f} (95%, over pairs)",)


def _chosen(row: ScoreRow) -> str:
    step = row.protocol.get("step")
    if not step:
        return "untrained"
    return f"step {step:,}, " + ("chosen by these labels" if row.protocol.get("selected_by_labels") else "no label chose it")


def _training(metrics: Sequence[Mapping[str, float]], before: float | None) -> tuple[Block, ...]:
    metrics = [*([] if before is None else [{"step": 0, "dev": before}]), *metrics]
    charts = [
        line_chart(title, [Line(name, tuple((row["step"], row[name]) for row in metrics if name in row))], x="step", y=name)
        for name, title in MONITORS.items()
    ]
    charts.append(plane("Alignment and uniformity of the batches, both better when lower", {"run": metrics}))
    shown = tuple(chart for chart in charts if chart)
    return (ChartRow(shown),) if shown else ()


def _neighbours(near: Mapping[str, Mapping[str, Sequence[str]]]) -> tuple[Block, ...]:
    lines = tuple(
        (Cell(shortened(sentence)), *(_listed(found[side]) for side in ("before", "after")))
        for sentence, found in near.items()
    )
    return (
        (DataTable("Nearest of the training sentences, by cosine", ("sentence", "before", "after"), lines),) if lines else ()
    )


def _listed(sentences: Sequence[str]) -> Cell:
    first, *others = map(shortened, sentences or [""])
    return Cell(first, tuple(others))


def _maps(mapped: Mapping[str, Any]) -> tuple[Block, ...]:
    charts = tuple(sentence_map(side.capitalize(), mapped[side]) for side in ("before", "after") if mapped.get(side))
    return ("Each map shows the two directions in which its vectors differ most.", ChartRow(charts)) if charts else ()


def _provenance(config: Mapping[str, Any], summary: Mapping[str, Any], environment: Mapping[str, Any]) -> tuple[Block, ...]:
    parts = {"Settings": config, "Summary": summary, "Environment": environment}
    return tuple(
        Folded(title, (text_table(title, ("name", "value"), [(name, _plain(value)) for name, value in values.items()]),))
        for title, values in parts.items()
        if values
    )


def _plain(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(part)}" for name, part in value.items())
    if isinstance(value, list):
        return " ".join(map(_plain, value))
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
