"""A score is a row: the one currency of training, evaluation, experiments and reports."""

from dataclasses import asdict, dataclass, field
from typing import Any, final


@final
@dataclass(frozen=True)
class ScoreRow:
    """One number, with what it is a number of."""

    embedder: str
    """Such as ``bert-base-uncased/sg-opt``."""
    dataset: str
    revision: str
    """Hub revision, or sha256 of the local file."""
    split: str
    metric: str
    value: float
    """x100, as papers print it."""
    seed: int | None
    run_id: str
    protocol: dict[str, Any] = field(default_factory=dict)
    """Choices that the number depends on, and whether labels selected the checkpoint."""

    def as_json(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return asdict(self)
