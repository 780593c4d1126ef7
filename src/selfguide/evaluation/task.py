"""What a task is: the sentences it needs, and the score rows it makes of their vectors."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, final

from selfguide.evaluation.vectors import Vectors


@final
@dataclass(frozen=True)
class Score:
    """One number of a task, before it is known whose it is."""

    dataset: str
    split: str
    metric: str
    value: float
    """x100."""
    revision: str
    protocol: dict[str, Any] = field(default_factory=dict)


class Task(Protocol):
    """A data set with a protocol."""

    @property
    def name(self) -> str:
        """Name of the data set, such as ``STS-B`` or ``MR``."""

    @property
    def revision(self) -> str:
        """Hub revision, or hash of the local files: what the data is."""

    def sentences(self) -> Iterable[str]:
        """Every sentence whose vector the task needs."""

    def score(self, vectors: Vectors, *, seed: int) -> list[Score]:
        """Numbers of the task."""
