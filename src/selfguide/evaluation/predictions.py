"""What an embedder predicts for scored pairs, and the correlation of that with the scores, for any sample of the pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@final
@dataclass(frozen=True)
class Predictions:
    """Cosines and gold scores of a data set, in the groups whose correlations are averaged; one group is all pairs."""

    cosines: tuple[Values, ...]
    gold: tuple[Values, ...]
    weights: tuple[float, ...]

    def correlation(self, correlate: Callable[[Values, Values], float]) -> float:
        """The weighted mean of the groups' correlations."""
        values = [correlate(cosines, gold) for cosines, gold in zip(self.cosines, self.gold, strict=True)]
        return float(np.average(values, weights=self.weights))

    def draw(self, rng: np.random.Generator) -> tuple[Rows, ...]:
        """Positions of a resample: from each group as many pairs as it has; drawn again where all gold scores are equal."""
        return tuple(_draw_rows(gold, rng) for gold in self.gold)

    def sample(self, rows: Sequence[Rows]) -> "Predictions":
        """The predictions for a resample."""
        return Predictions(
            cosines=tuple(values[chosen] for values, chosen in zip(self.cosines, rows, strict=True)),
            gold=tuple(values[chosen] for values, chosen in zip(self.gold, rows, strict=True)),
            weights=self.weights,
        )


def _draw_rows(gold: Values, rng: np.random.Generator) -> Rows:
    while True:
        rows: Rows = rng.integers(len(gold), size=len(gold))
        if np.ptp(gold[rows]) > 0:  # else no correlation is defined
            return rows
