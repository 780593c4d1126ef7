"""``selfguide compare``: several embedders on the same tasks, and which differences are more than the choice of pairs."""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from selfguide.choices import LEARNING_EMBEDDERS
from selfguide.embedders.protocol import Embedder
from selfguide.errors import InputError
from selfguide.evaluation.comparison import Difference, compare_embedders
from selfguide.evaluation.config import EvaluationConfig
from selfguide.evaluation.evaluate import load_configured
from selfguide.evaluation.families import PlannedTask, choose_glue
from selfguide.evaluation.predictions import Predictions
from selfguide.evaluation.score_keeper import ScoreKeeper
from selfguide.evaluation.sts import StsTask
from selfguide.evaluation.suite import plan_tasks
from selfguide.evaluation.vectors import Vectors
from selfguide.progress import OnProgress, progress_on
from selfguide.scores import ScoreRow

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class _Scored:
    """What came of one model."""

    model: str
    """As it was given."""
    name: str
    recipe: str
    """Those of one name and recipe are the seeds of one system."""
    rows: list[ScoreRow]
    predicted: dict[str, Predictions]


@final
@dataclass(frozen=True)
class Comparison:
    """What came of a comparison."""

    rows: list[ScoreRow]
    differences: list[Difference]
    missing: Mapping[str, str]
    """Data set that could not be scored -> why."""
    failed: Mapping[str, str]
    """Model that could not be scored -> why."""


def run_comparison(
    models: Sequence[str], config: EvaluationConfig, *, draws: int = 1000, progress: bool = True
) -> Comparison:
    """Score every model on the same tasks; those that were trained alike but for the seed are one embedder.

    Others of one name are told apart by what was given. A model that cannot be loaded, fitted or scored does not keep the
    others from it.

    Args:
        models: Each a model, or ``MODEL:EMBEDDER`` such as ``bert-base-uncased:mean``.
        config: Tasks, protocol, and the text for those that learn from text; its model and embedder are not looked at.
        draws: Resamples of the paired bootstrap.
        progress: Show a bar on stderr, where that is a terminal.

    Raises:
        InputError: when something in the input is wrong, or no model can be scored.
    """
    if len(models) < 2:
        raise InputError(f"{len(models)} model was given; a comparison takes two or more, each as MODEL or MODEL:EMBEDDER")
    if draws < 1:
        raise InputError(f"--draws is {draws}; it must be 1 or more")
    configs = [_config_of(model, config) for model in models]
    if config.fit_on and not any(own.fit_on for own in configs):
        learning = " or ".join(f"MODEL:{name}" for name in LEARNING_EMBEDDERS)
        raise InputError(f"--fit-on was given, but none of the models learns from text; give {learning} as well")
    glue = choose_glue(config.task_names)
    if glue:
        raise InputError(f"compare is for vectors; {', '.join(glue)} fine-tunes an encoder: use 'selfguide evaluate'")
    planned, missing = plan_tasks(config)
    failed: dict[str, str] = {}
    found: list[_Scored] = []
    for model, own in zip(models, configs, strict=True):
        try:
            with progress_on(sys.stderr, "embedding", enabled=progress) as on_progress:
                found.append(_score(model, planned, own, on_progress))
        except InputError as error:
            failed[model] = str(error)
            continue
        logger.info("%s: %d numbers", found[-1].name, len(found[-1].rows))
    if not found:
        raise InputError(f"none of the models can be scored: {'; '.join(dict.fromkeys(failed.values()))}")
    rows: list[ScoreRow] = []
    predictions: dict[str, dict[str, list[Predictions]]] = {}
    for scored, label in zip(found, _labels(found), strict=True):
        rows += [replace(row, embedder=label) for row in scored.rows]
        for dataset, values in scored.predicted.items():
            predictions.setdefault(dataset, {}).setdefault(label, []).append(values)
    several = len({row.embedder for row in rows}) > 1
    differences = compare_embedders(predictions, draws=draws) if several and predictions else []
    return Comparison(rows, differences, missing, failed)


def _labels(found: Sequence[_Scored]) -> list[str]:
    """The name of each; where several recipes have one name, with the first model of the recipe as it was given."""
    firsts: dict[str, dict[str, str]] = {}
    for scored in found:
        firsts.setdefault(scored.name, {}).setdefault(scored.recipe, scored.model)
    return [
        f"{scored.name} ({firsts[scored.name][scored.recipe]})" if len(firsts[scored.name]) > 1 else scored.name
        for scored in found
    ]


def _recipe(embedder: Embedder, model: str) -> str:
    """What models that are the seeds of one system have in common; of one without a seed, the model itself."""
    protocol = embedder.protocol
    return str(protocol.get("training_recipe", "")) if "training_seed" in protocol else model


def _score(model: str, planned: Sequence[PlannedTask], config: EvaluationConfig, on_progress: OnProgress) -> _Scored:
    embedder = load_configured(config)
    keeper = ScoreKeeper(embedder, config)
    sentences = (sentence for task in planned for sentence in task.task.sentences())
    vectors = Vectors(embedder, sentences, on_progress=on_progress)
    rows = [row for task in planned for row in keeper.known(task) or keeper.score(task, vectors)]
    predicted = {task.task.name: task.task.predict(vectors) for task in planned if isinstance(task.task, StsTask)}
    every = [*rows, *keeper.averages(rows)]
    return _Scored(model, keeper.name, _recipe(embedder, config.model), every, predicted)


def _config_of(model: str, config: EvaluationConfig) -> EvaluationConfig:
    """The configuration of one model: what follows the last colon is its embedder, unless a path has that colon."""
    name, colon, embedder = model.rpartition(":")
    if not colon or Path(model).exists():
        name, embedder = model, ""
    is_fitted = embedder in LEARNING_EMBEDDERS or config.vectors == "int8"
    return replace(config, model=name, embedder=embedder or None, fit_on=config.fit_on if is_fitted else ())
