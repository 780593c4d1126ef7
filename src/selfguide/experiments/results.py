"""Result files: one a job, with the score rows and all that is needed to tell where they come from."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from selfguide.errors import InputError
from selfguide.experiments.jobs import Job
from selfguide.files import read_json, write_text
from selfguide.scores import ScoreRow

MEASURED = "measured"
"""State of a result that has numbers; any other begins with ``not run:`` and says why."""


@final
@dataclass(frozen=True)
class Result:
    """What came of a job."""

    recipe: dict[str, Any]
    fingerprint: str
    state: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Score rows, as JSON."""
    missing: dict[str, str] = field(default_factory=dict)
    """Data set that could not be scored -> why."""
    seconds: dict[str, float] = field(default_factory=dict)
    config: dict[str, Any] | None = None
    """The resolved configuration of a training."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """Monitors and dev scores of a training, some of its steps."""
    artefacts: dict[str, Any] = field(default_factory=dict)
    """What a figure shows that is no score."""
    environment: dict[str, Any] = field(default_factory=dict)
    commit: str | None = None

    @property
    def is_measured(self) -> bool:
        """Whether there are numbers."""
        return self.state == MEASURED

    @property
    def score_rows(self) -> list[ScoreRow]:
        """The rows as objects."""
        return [ScoreRow(**row) for row in self.rows]

    def value_of(self, dataset: str, metric: str) -> float | None:
        """The number of a column, where there is one."""
        if metric == "seconds":
            return self.seconds.get(dataset)
        found = [row["value"] for row in self.rows if (row["dataset"], row["metric"]) == (dataset, metric)]
        return float(found[-1]) if found else None


def not_run(job: Job, reason: str) -> Result:
    """The result of a job that could not be run."""
    return Result(job.recipe, job.fingerprint, f"not run: {reason}")


@final
class ResultFolder:
    """A folder of result files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, job: Job) -> Result | None:
        """The result of a job; None where there is none, or it is of another recipe.

        Raises:
            InputError: when the file is broken.
        """
        path = self.folder / job.path
        if not path.is_file():
            return None
        result = read_result(path)
        return result if result.fingerprint == job.fingerprint else None

    def seconds_before(self, job: Job) -> float | None:
        """Seconds that a job took the last time, be its result stale or not."""
        path = self.folder / job.path
        return read_result(path).seconds.get("total") if path.is_file() else None

    def write(self, job: Job, result: Result) -> None:
        """Write the result of a job."""
        path = self.folder / job.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, _as_text(asdict(result)))


def _as_text(values: dict[str, Any]) -> str:
    """JSON with a line for each field, and for each item of a list: short, and differences are seen."""

    def text_of(value: object) -> str:
        if isinstance(value, list) and value:
            return "[\n" + ",\n".join("  " + json.dumps(item, ensure_ascii=False) for item in value) + "\n]"
        return json.dumps(value, ensure_ascii=False)

    return "{\n" + ",\n".join(f"{json.dumps(name)}: {text_of(value)}" for name, value in values.items()) + "\n}\n"


def read_result(path: Path) -> Result:
    """Read a result file.

    Raises:
        InputError: when it is none.
    """
    try:
        values = read_json(path)
        if not isinstance(values, Mapping):
            raise TypeError("no JSON object")
        result = Result(**values)
        _check_types(result)
        return result
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path}: not a result file ({type(error).__name__}: {error}); delete it to run it again"
        ) from error


def _check_types(result: Result) -> None:
    """Refuse a file that was changed by hand so that its numbers cannot be read.

    Raises:
        TypeError: when something that is read later is of another type.
    """
    is_rows = isinstance(result.rows, list) and all(
        isinstance(row, dict) and {"dataset", "metric"} <= row.keys() and _is_number(row.get("value")) for row in result.rows
    )
    is_seconds = isinstance(result.seconds, dict) and all(map(_is_number, result.seconds.values()))
    if not (isinstance(result.state, str) and is_rows and is_seconds):
        raise TypeError("its state, rows or seconds are not what they should be")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
