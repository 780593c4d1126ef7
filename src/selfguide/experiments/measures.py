"""How a system is measured: scores, a sweep over layers, a map of pairs, or its cost."""

import dataclasses
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy as np
from sklearn.manifold import TSNE  # type: ignore[import-untyped]

from selfguide.data.pairs import ScoredPairs, read_pairs
from selfguide.devices import choose_device
from selfguide.embedders.protocol import Embedder
from selfguide.environment import current_commit, describe_environment
from selfguide.errors import InputError
from selfguide.evaluation.evaluate import load_configured, run_evaluation
from selfguide.experiments.jobs import Job
from selfguide.experiments.making import System, made
from selfguide.experiments.places import Places
from selfguide.experiments.results import MEASURED, Result, not_run

logger = logging.getLogger(__name__)

MAPPED_PAIRS = 20
"""Pairs of each kind on a map."""
COST_BATCH = 16
"""Sentences at a time when the cost is measured, as in the paper."""


@final
@dataclasses.dataclass
class Measured:
    """What a measure gives."""

    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    artefacts: dict[str, Any] = dataclasses.field(default_factory=dict)


def run_job(job: Job, places: Places) -> Result:
    """Make the system of a job and measure it; what is not to be had is told in the result's state."""
    began = time.perf_counter()
    try:
        with made(job, places) as system:
            measured = MEASURES[job.measure](system, places)
    except InputError as error:
        return not_run(job, _without_data_folder(str(error).partition(";")[0], places))  # advice is for the terminal
    except Exception as error:  # one failure, such as too little memory on the device, does not stop the other jobs
        logger.exception("%s failed", job)
        return not_run(job, f"failed with {type(error).__name__}: {' '.join(str(error).split())[:200]}")
    training = {} if system.training_seconds is None else {"training": system.training_seconds}
    return Result(
        recipe=job.recipe,
        fingerprint=job.fingerprint,
        state=MEASURED,
        rows=measured.rows,
        missing={name: _without_data_folder(reason, places) for name, reason in measured.missing.items()},
        seconds={**training, **measured.seconds, "total": time.perf_counter() - began},
        config=_without_folders(system.config, places),
        curve=system.curve,
        artefacts=measured.artefacts,
        environment=_environment(places),
        commit=current_commit(),
    )


def _scores(*tasks: str, **settings: Any) -> Callable[[System, Places], Measured]:  # noqa: ANN401 - of an evaluation
    def measure(system: System, places: Places) -> Measured:
        config = dataclasses.replace(system.evaluation, tasks=tasks, **settings)
        evaluation = run_evaluation(config, progress=False)
        return Measured([row.as_json() for row in evaluation.rows], dict(evaluation.missing))

    return measure


def _map(system: System, places: Places) -> Measured:
    """t-SNE of the sentences of pairs that people found the same, or not alike at all."""
    embedder = load_configured(system.evaluation)
    pairs = _stsb(places, "dev")
    chosen = [
        (position, kind)
        for kind, score in (("positive", max(pairs.scores)), ("negative", min(pairs.scores)))
        for position in [n for n, value in enumerate(pairs.scores) if value == score][:MAPPED_PAIRS]
    ]
    sentences = [text for position, _ in chosen for text in (pairs.sentences1[position], pairs.sentences2[position])]
    vectors = embedder.encode(sentences)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    points = TSNE(perplexity=10, init="pca", random_state=1).fit_transform(unit)
    cosines = (unit[::2] * unit[1::2]).sum(axis=1)
    pairs_of_points = np.round(points, 3).reshape(-1, 2, 2).tolist()
    mapped = [
        {
            "kind": kind,
            "line": position + 1,
            "cosine": round(float(cosine), 4),
            "sentences": _places_of(position),
            "points": two,
        }
        for (position, kind), cosine, two in zip(chosen, cosines, pairs_of_points, strict=True)
    ]
    return Measured(artefacts={"map": mapped})


def _places_of(position: int) -> list[str]:
    """Where the sentences of a pair stand; the sentences themselves belong to the data, not to a result."""
    return [f"STS-B dev, line {position + 1}, sentence {number}" for number in (1, 2)]


def _cost(system: System, places: Places) -> Measured:
    """Seconds for the sentences of STS-B test, some at a time; an embedder that is fitted has its own training."""
    began = time.perf_counter()
    embedder = load_configured(system.evaluation)
    fitting = {"training": time.perf_counter() - began} if system.evaluation.fit_on else {}
    pairs = _stsb(places, "test")
    sentences = [*pairs.sentences1, *pairs.sentences2]
    _encode_all(embedder, sentences[: 20 * COST_BATCH])  # warm up
    began = time.perf_counter()
    _encode_all(embedder, sentences)
    return Measured(seconds={**fitting, "inference": time.perf_counter() - began})


def _encode_all(embedder: Embedder, sentences: list[str]) -> None:
    for start in range(0, len(sentences), COST_BATCH):
        embedder.encode(sentences[start : start + COST_BATCH])


def _stsb(places: Places, split: str) -> ScoredPairs:
    return read_pairs(places.text_folder() / "sts" / "STS-B" / f"{split}.tsv")


def _environment(places: Places) -> dict[str, Any]:
    """Versions and hardware, and the command without folders."""
    found = describe_environment(str(choose_device(places.device)))
    command = [(name + equals, Path(value)) for name, equals, value in (part.rpartition("=") for part in found["command"])]
    return {**found, "command": [name + (value.name if value.is_absolute() else str(value)) for name, value in command]}


def _without_data_folder(text: str, places: Places) -> str:
    return text.replace(f"{places.data}/", "") if places.data else text


def _without_folders(config: dict[str, Any] | None, places: Places) -> dict[str, Any] | None:
    """The configuration with names in the place of folders, which are nobody else's."""
    if config is None:
        return None
    names = ("model", "dev", "output", "paraphrases")
    short = {name: Path(config[name]).name for name in names if config[name]}
    return {**config, **short, "data": [Path(name).name for name in config["data"]]}


MEASURES: dict[str, Callable[[System, Places], Measured]] = {
    "sts": _scores("sts"),
    "sts-multilingual": _scores("sts-multilingual"),
    "senteval": _scores("senteval"),
    "glue": _scores("glue"),
    "sweep": _scores("STS-B", sweep=True, embedder=None, layer=None),
    "map": _map,
    "cost": _cost,
}
