"""A suite of tasks on one embedder: each distinct sentence is embedded once."""

from collections.abc import Sequence
from pathlib import Path

from selfguide.data.sts import read_private_pairs
from selfguide.embedders.protocol import Embedder
from selfguide.errors import InputError, MissingDataError
from selfguide.evaluation.config import EvaluationConfig
from selfguide.evaluation.families import PlannedTask, choose_datasets, plan_geometry, plan_sts
from selfguide.evaluation.score_keeper import ScoreKeeper
from selfguide.evaluation.vectors import Vectors
from selfguide.progress import OnProgress
from selfguide.scores import ScoreRow


def plan_tasks(config: EvaluationConfig) -> tuple[list[PlannedTask], dict[str, str]]:
    """Read the data of all tasks; gives them, and the data sets that are missing, each with the reason.

    Raises:
        InputError: when a name is not known, a data set is broken or not what it should be, or none is there at all.
    """
    if config.data and not Path(config.data).expanduser().is_dir():
        raise InputError(f"the data folder '{config.data}' does not exist; give the folder that holds 'sts'")
    plans = [(name, family.plan) for family, name in choose_datasets(config.task_names)]
    if config.analyses:
        plans.append(("STS-B", plan_geometry))
    planned = [plan_sts(read_private_pairs(Path(path), name=name), "all") for path, name in _named(config.pairs)]
    missing: dict[str, str] = {}
    for name, plan in plans:
        try:
            planned.append(plan(name, config))
        except MissingDataError as error:
            missing[name] = str(error)
    if not planned and missing:
        raise InputError(f"none of the data sets is there: {'; '.join(missing.values())}")
    return planned, missing


def _named(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Files and their names; of those with the same, the whole path is the name."""
    names = [Path(path).name for path in paths]
    return [(path, name if names.count(name) == 1 else path) for path, name in zip(paths, names, strict=True)]


def run_suite(
    embedder: Embedder,
    planned: Sequence[PlannedTask],
    config: EvaluationConfig,
    *,
    on_progress: OnProgress = lambda done, total: None,
) -> list[ScoreRow]:
    """Score an embedder on tasks; those whose rows the output file holds are not scored again.

    Raises:
        InputError: when the vectors are such that a score is not defined, or the output file holds something else.
    """
    keeper = ScoreKeeper(embedder, config)
    rows_of_tasks = [keeper.known(task) for task in planned]
    left = [position for position, rows in enumerate(rows_of_tasks) if not rows]
    if left:
        sentences = (sentence for position in left for sentence in planned[position].task.sentences())
        vectors = Vectors(embedder, sentences, on_progress=on_progress)
        for position in left:
            rows_of_tasks[position] = keeper.score(planned[position], vectors)
    rows = [row for rows in rows_of_tasks for row in rows]
    return [*rows, *keeper.averages(rows)]
