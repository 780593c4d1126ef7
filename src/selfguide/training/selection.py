"""Which step is kept, and when to stop: the best dev score and how long it has stood."""

from dataclasses import dataclass
from typing import final


@final
@dataclass
class Selection:
    """Follows the dev scores of a run."""

    patience: int
    """Scores without a new best before stopping; 0 for never."""
    best: float = float("-inf")
    best_step: int = 0
    since_best: int = 0

    def add(self, step: int, score: float) -> bool:
        """Take in a score; tells whether it is a new best."""
        if score > self.best:
            self.best, self.best_step, self.since_best = score, step, 0
            return True
        self.since_best += 1
        return False

    @property
    def is_over(self) -> bool:
        """Whether patience has run out."""
        return 0 < self.patience <= self.since_best
