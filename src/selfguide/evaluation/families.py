"""The tasks that a user can ask for, by family: the one place where a new family is registered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, final

from selfguide.data.records import MULTILINGUAL, SEVEN, SICK_ALL, StsRecord
from selfguide.data.senteval import LAYOUTS as TRANSFER_TASKS
from selfguide.data.sts import StsData, read_sts
from selfguide.devices import choose_device
from selfguide.errors import InputError, MissingDataError
from selfguide.evaluation.config import EvaluationConfig
from selfguide.evaluation.geometry import METRICS as GEOMETRY_METRICS
from selfguide.evaluation.geometry import GeometryTask
from selfguide.evaluation.senteval import senteval_tasks
from selfguide.evaluation.sts import METRICS, StsTask
from selfguide.evaluation.task import Task
from selfguide.settings import with_hint

AVERAGE = "Avg"

GLUE = {"QNLI": "QNLI", "SST-2": "SST-2", "CoLA": "CoLA", "glue-MRPC": "MRPC", "RTE": "RTE"}
"""Name to ask for -> task of GLUE; plain MRPC is SentEval's. They fine-tune the encoder: no task of ready vectors."""


@final
@dataclass(frozen=True)
class PlannedTask:
    """A task with its data, and what is known of its rows before it is scored."""

    task: Task
    metrics: tuple[str, ...]
    is_seeded: bool = False
    """Whether the numbers depend on the seed of the evaluation."""


@final
@dataclass(frozen=True)
class Family:
    """Data sets that are scored by the same protocol."""

    name: str
    datasets: tuple[str, ...]
    """In the order of the paper's columns."""
    plan: Callable[[str, EvaluationConfig], PlannedTask]
    """Reads a data set; raises a ``MissingDataError`` where it is not there."""
    averaged: tuple[str, ...] = ()
    """Metrics for which there is a row ``Avg`` over all the data sets."""


def read_seven(name: str, config: EvaluationConfig) -> StsData:
    """One of the paper's seven English sets.

    Raises:
        MissingDataError: The data set is not there.
        InputError: It is not the data set that it should be, or the source does not tell its subsets apart.
    """
    record = SICK_ALL if name == SICK_ALL.name and config.sick == SICK_ALL.split else _record(SEVEN, name)
    data = read_sts(record, _folder(config), text=config.text)
    if config.aggregation != "all" and record.has_subsets and len(data.subsets) == 1:
        raise InputError(
            f"aggregation '{config.aggregation}' needs the subsets of {name}, which {data.source} does not tell apart; "
            "give a data folder (--data), or use --aggregation all"
        )
    return data


def read_multilingual(name: str, config: EvaluationConfig) -> StsData:
    """A set in another language; there is one text variant only.

    Raises:
        MissingDataError: The data set is not there.
        InputError: It is not the data set that it should be.
    """
    return read_sts(_record(MULTILINGUAL, name), _folder(config))


def plan_sts(data: StsData, aggregation: str) -> PlannedTask:
    """A data set of scored pairs as a task."""
    return PlannedTask(StsTask(data, aggregation=aggregation), metrics=tuple(METRICS))


def plan_geometry(name: str, config: EvaluationConfig) -> PlannedTask:
    """One of the seven English sets, to measure how its vectors lie in space.

    Raises:
        MissingDataError: The data set is not there.
        InputError: It is not the data set that it should be.
    """
    return PlannedTask(GeometryTask(read_seven(name, config)), metrics=GEOMETRY_METRICS)


def plan_transfer(name: str, config: EvaluationConfig) -> PlannedTask:
    """A transfer task of SentEval.

    Raises:
        MissingDataError: The data set is not there, or there is no data folder.
        InputError: A file is broken.
    """
    folder = _folder(config)
    if folder is None:
        raise MissingDataError(f"{name}: SentEval's data sets are read from a data folder only (--data)")
    chosen = choose_device(config.device).type
    device = "cpu" if chosen == "mps" else chosen  # which has no float64
    sst_train = cast(Literal["phrases", "sentences"], config.sst_train)
    (task,) = senteval_tasks(folder, [name], hidden=config.hidden, device=device, sst_train=sst_train)
    return PlannedTask(task, metrics=("accuracy",), is_seeded=True)


FAMILIES = (
    Family(
        name="sts",
        datasets=tuple(record.name for record in SEVEN),
        plan=lambda name, config: plan_sts(read_seven(name, config), config.aggregation),
        averaged=tuple(METRICS),
    ),
    Family(
        name="sts-multilingual",
        datasets=tuple(record.name for record in MULTILINGUAL),
        # the two parts of SemEval-2014 weighted by their pairs: so the paper's numbers come out
        plan=lambda name, config: plan_sts(read_multilingual(name, config), "wmean"),
    ),
    Family(name="senteval", datasets=tuple(TRANSFER_TASKS), plan=plan_transfer, averaged=("accuracy",)),
)


def choose_datasets(names: Sequence[str]) -> list[tuple[Family, str]]:
    """Data sets of families and data sets by name, each once, in the order of the tables.

    Raises:
        InputError: for a name that is neither.
    """
    known = [*(name for family in FAMILIES for name in (family.name, *family.datasets)), "glue", *GLUE]
    unknown = [with_hint(name, known) for name in names if name not in known]
    if unknown:
        raise InputError(f"task {', '.join(unknown)} is not known; choose from: {', '.join(known)}")
    return [
        (family, dataset) for family in FAMILIES for dataset in family.datasets if family.name in names or dataset in names
    ]


def choose_glue(names: Sequence[str]) -> list[str]:
    """The GLUE tasks among the names, as GLUE calls them."""
    return [task for name, task in GLUE.items() if name in names or "glue" in names]


def _record(records: Sequence[StsRecord], name: str) -> StsRecord:
    return next(record for record in records if record.name == name)


def _folder(config: EvaluationConfig) -> Path | None:
    return Path(config.data).expanduser() if config.data else None
