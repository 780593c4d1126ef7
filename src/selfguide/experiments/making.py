"""From a job to the system that it measures: an encoder as it is, fitted on a text, or trained on one."""

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

from selfguide.errors import MissingDataError
from selfguide.evaluation.config import EvaluationConfig
from selfguide.experiments.jobs import Job
from selfguide.experiments.places import Places
from selfguide.experiments.specs import methods
from selfguide.experiments.texts import text_file, training_settings
from selfguide.files import read_json_lines
from selfguide.training.progress import Silent
from selfguide.training.train import run_training

CURVE_STEPS = 25
"""Of the steps of a training, each of so many is kept in the result, and all dev scores."""


@final
@dataclass(frozen=True)
class System:
    """What is measured."""

    evaluation: EvaluationConfig
    """Names the model and how it is read; the tasks are still to be named."""
    training_seconds: float | None = None
    config: dict[str, Any] | None = None
    curve: list[dict[str, float]] = field(default_factory=list)


@contextmanager
def made(job: Job, places: Places) -> Iterator[System]:
    """The system of a job, which is there as long as the block lasts.

    Raises:
        InputError: when a model or a text is not to be had.
    """
    method = methods()[job.method]
    settings: dict[str, Any] = {
        "name": f"{job.encoder or 'none'}/{job.method}",
        "data": str(places.data) if places.data else None,
        "device": places.device,
        "seed": 1 if job.seed is None else job.seed,
        **method.embedder,
    }
    if method.train is None:
        if method.text is not None:
            settings["fit_on"] = (str(text_file(method.text, places.text_folder(), places.work / "texts")),)
        yield System(EvaluationConfig(model=places.location(job.model), **settings))
        return
    with TemporaryDirectory() as scratch:
        output = Path(scratch) / "encoder"
        began = time.perf_counter()
        summary = run_training(_training(job, places, output), progress=Silent())
        yield System(
            EvaluationConfig(model=str(output), **settings),
            training_seconds=time.perf_counter() - began,
            config={
                **dataclasses.asdict(summary.config),
                "kept_step": summary.kept_step,
                "steps_taken": summary.steps_taken,
            },
            curve=_curve(output / "selfguide" / "metrics.jsonl"),
        )


def _training(job: Job, places: Places, output: Path) -> dict[str, Any]:
    """The settings of a training: the preset ``paper`` and what the method changes, selected on STS-B dev."""
    method, data = methods()[job.method], places.text_folder()
    assert method.train is not None
    assert method.text is not None
    dev = data / "sts" / "STS-B" / "dev.tsv"
    if not dev.is_file():
        raise MissingDataError(f"the pairs that select a checkpoint: '{dev}' is not there")
    return {
        "preset": "paper",
        "model": places.location(job.model),
        "output": str(output),
        "dev": str(dev),
        "seed": job.seed,
        "device": places.device,
        **training_settings(method.text, data, places.work / "texts"),
        **method.train,
    }


def _curve(metrics: Path) -> list[dict[str, float]]:
    rows = read_json_lines(metrics)
    kept = [row for row in rows if "dev" in row or row["step"] % CURVE_STEPS == 0]
    return [{name: json.loads(f"{value:.5g}") for name, value in row.items()} for row in kept]
