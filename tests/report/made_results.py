"""Results, a run and score rows as the commands write them, with numbers that nobody measured."""

import random
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from selfguide.experiments.jobs import Job, jobs_of
from selfguide.experiments.results import MEASURED, Result, ResultFolder, not_run
from selfguide.experiments.specs import Row, Spec, read_spec
from selfguide.files import write_json, write_json_lines
from selfguide.scores import ScoreRow, write_scores

NASTY = '<script>alert("a sentence")</script> & <b>bold</b> </script> %{x} 日本語'
"""A sentence that must be shown as it is."""
SENTENCES = (NASTY, "A child feeds the ducks.", "Ducks are fed by a child.", "The train is late.", "A dog runs in snow.")
ENVIRONMENT = {
    "python": "3.11.9",
    "packages": {"selfguide": "0.1.0", "torch": "2.13.0", "transformers": "5.22.2"},
    "device": "cuda",
    "device_name": "NVIDIA Example",
    "cores": 2,
}


MEASURED_ENCODERS = ("BERT-base", "MBERT", "mini")


def write_results(folder: Path, names: Sequence[str], *, encoders: Collection[str] = MEASURED_ENCODERS) -> None:
    """Results of tables and figures, near to what the paper prints; those of other encoders could not be run."""
    results = ResultFolder(folder)
    for spec in map(read_spec, names):
        for row in spec.rows:
            for job in jobs_of(row, spec.measure):
                made = _result(job, spec, row) if row.encoder in encoders else not_run(job, f"no model '{job.model}' here")
                if not (folder / job.path).exists():  # tables share jobs; the first has the most columns
                    results.write(job, made)


def write_values(folder: Path, name: str, encoder: str, method: str, values: Sequence[float]) -> None:
    """Results of one line of a table with one column, a value for each of its first seeds."""
    spec = read_spec(name)
    [row] = [row for row in spec.rows if (row.encoder, row.method) == (encoder, method)]
    for job, value in zip(jobs_of(row, spec.measure), values, strict=False):
        rows = [_score(job, spec.columns[0], spec.metrics[0], value).as_json()]
        made = Result(job.recipe, job.fingerprint, MEASURED, rows, seconds={"total": 1.0}, environment=ENVIRONMENT)
        ResultFolder(folder).write(job, made)


def _result(job: Job, spec: Spec, row: Row) -> Result:
    draws = random.Random(str(job))
    columns = zip(spec.columns, spec.metrics, strict=True)
    rows = [_score(job, column, metric, _near(row, column, draws)) for column, metric in columns]
    if job.measure == "sweep":
        rows = [
            _score(job, "STS-B", "spearman", 30 + 4 * layer + draws.random(), pooling=pooling, layers=[layer])
            for layer in range(5)
            for pooling in ("cls", "mean", "max")
            if (layer, pooling) != (0, "cls")
        ]
    return Result(
        recipe=job.recipe,
        fingerprint=job.fingerprint,
        state=MEASURED,
        rows=[] if job.measure in ("map", "cost") else [score.as_json() for score in rows],
        seconds={"training": 12.0 + draws.random(), "inference": 1.5 + draws.random(), "total": 20.0},
        curve=[] if job.recipe["train"] is None else curve(draws),
        artefacts={"map": mapped_pairs(draws)} if job.measure == "map" else {},
        environment=ENVIRONMENT,
        commit="0123456789abcdef0123456789abcdef01234567",
    )


def _near(row: Row, column: str, draws: random.Random) -> float:
    printed = row.paper.get(column)
    return (60.0 if printed is None else printed.value) + (draws.gauss(0, 0.5) if row.seeds else 0.01)


def _score(job: Job, dataset: str, metric: str, value: float, **protocol: Any) -> ScoreRow:
    return ScoreRow(f"{job.model}/{job.method}", dataset, "0" * 8, "test", metric, value, job.seed, "run", protocol)


def curve(draws: random.Random, steps: int = 400) -> list[dict[str, float]]:
    """Monitors of every 25th step, and a dev score at each 100th."""
    rows: list[dict[str, float]] = []
    for step in range(25, steps + 1, 25):
        part = step / steps
        noise = draws.gauss(0, 0.03)
        monitors = {"loss": 3 - 2 * part + noise, "accuracy": 0.5 + 0.4 * part, "spread": 0.9 + noise}
        rows.append({"step": step, **monitors, "alignment": 0.3 + part / 3 + noise, "uniformity": -0.5 - 2 * part + noise})
        if step % 100 == 0:
            rows.append({"step": step, "dev": 60 + 15 * part + 10 * noise})
    return rows


def mapped_pairs(draws: random.Random) -> list[dict[str, Any]]:
    """Groups of a map: positive and negative pairs."""
    groups = []
    for number in range(12):
        kind = "positive" if number < 6 else "negative"
        x, y = draws.uniform(-9, 9), draws.uniform(-9, 9)
        far = 1 if kind == "positive" else 8
        other = [x + draws.gauss(0, far), y + draws.gauss(0, far)]
        pair = [SENTENCES[number % 5], f"{SENTENCES[(number + 1) % 5]} ({number})"]
        cosine = 0.9 if kind == "positive" else 0.2
        groups.append({"kind": kind, "line": number + 1, "cosine": cosine, "sentences": pair, "points": [[x, y], other]})
    return groups


def write_run(folder: Path) -> Path:
    """The record of a run in ``folder / "selfguide"``; gives ``folder``."""
    record, draws = folder / "selfguide", random.Random(0)
    record.mkdir(parents=True)
    write_json(record / "config.json", {"model": "models/mini", "objective": "sg-opt", "seed": 1, "data": ["a.txt"]})
    summary = {"data": "40 sentences kept of 41 read", "steps_taken": 400, "steps_planned": 500, "kept_step": 300}
    write_json(record / "summary.json", {**summary, "seconds": 61.0})
    write_json(record / "environment.json", ENVIRONMENT)
    write_json_lines(record / "metrics.jsonl", curve(draws))
    write_json(record / "map.json", {side: mapped_pairs(draws) for side in ("before", "after")})
    near = {SENTENCES[0]: {"before": [SENTENCES[3], SENTENCES[4]], "after": [SENTENCES[1], SENTENCES[2]]}}
    write_json(record / "neighbours.json", near)
    rows = [
        ScoreRow("mini/cls", "pairs", "0", "dev", "spearman", 42.8, None, "r", {"step": 0, "interval": [29.1, 55.6]}),
        ScoreRow("mini/sg-opt", "pairs", "0", "dev", "spearman", 64.5, 1, "r", {"step": 300, "selected_by_labels": True}),
    ]
    write_scores(record / "scores.jsonl", rows)
    return folder


def write_score_file(path: Path) -> Path:
    """Rows of two embedders with their geometry, and a sweep of a third; gives ``path``."""
    rows = []
    for number, embedder in enumerate(("bert/mean", "bert/sg-opt")):
        values = {"spearman": 50.0 + 20 * number, "alignment": 0.2 + number / 5, "uniformity": -1.5 - number}
        rows += [ScoreRow(embedder, "STS-B", "0", "test", metric, value, 1, "r") for metric, value in values.items()]
    for layer in range(4):
        for pooling in ("cls", "mean"):
            if (layer, pooling) != (0, "cls"):
                protocol = {"pooling": pooling, "layers": [layer], "swept": True, "weights": "0"}
                name = f"mini/{pooling}@{layer}"
                rows.append(ScoreRow(name, "STS-B", "0", "test", "spearman", 30.0 + layer, None, "r", protocol))
    write_scores(path, rows)
    return path
