"""Are two embedders different, or is it the choice of pairs? A paired bootstrap over the sentence pairs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np
import numpy.typing as npt

from selfguide.evaluation.families import AVERAGE
from selfguide.evaluation.predictions import Predictions
from selfguide.similarity import spearman

Matrix = npt.NDArray[np.float64]

BySeeds = Sequence[Predictions]
"""Predictions of the embedders of one name, which differ in the seed of their training; one where there is no seed."""


@final
@dataclass(frozen=True)
class Difference:
    """How much more the first embedder scores than the second, with a 95% interval over the choice of pairs."""

    first: str
    second: str
    dataset: str
    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def compare_embedders(
    predictions: Mapping[str, Mapping[str, BySeeds]], *, draws: int = 1000, seed: int = 0
) -> list[Difference]:
    """Differences between all embedders on each data set, and on their average where there are several.

    Every draw resamples the pairs of a data set once for all embedders, and takes the mean of an embedder's seeds: what
    varies is the choice of pairs. The spread over seeds is another matter, and stands in the table of scores.

    Args:
        predictions: Data set -> embedder -> predictions, with the same gold scores for all embedders.
        draws: Resamples of each data set.
        seed: Of the resampling.
    """
    names = list(next(iter(predictions.values())))
    observed = {dataset: _scores(of_embedders.values()) for dataset, of_embedders in predictions.items()}
    drawn = {
        dataset: _resample(list(of_embedders.values()), draws, np.random.default_rng([seed, number]))
        for number, (dataset, of_embedders) in enumerate(predictions.items())
    }
    if len(predictions) > 1:
        observed[AVERAGE] = np.mean(list(observed.values()), axis=0)
        drawn[AVERAGE] = np.mean(list(drawn.values()), axis=0)
    differences = []
    for (i, first), (j, second) in combinations(enumerate(names), 2):
        for dataset, values in drawn.items():
            low, high = np.quantile(values[:, i] - values[:, j], [0.025, 0.975])
            value = observed[dataset][i] - observed[dataset][j]
            differences.append(Difference(first, second, dataset, float(value), float(low), float(high)))
    return differences


def _resample(embedders: Sequence[BySeeds], draws: int, rng: np.random.Generator) -> Matrix:
    """Scores of every embedder for each resample of the pairs, ``(draws, embedders)``."""
    scores = []
    for _ in range(draws):
        sampled = _draw(embedders, rng)
        scores.append(_scores(sampled))
    return np.array(scores)


def _draw(embedders: Sequence[BySeeds], rng: np.random.Generator) -> list[list[Predictions]]:
    """A resample of the pairs, the same for all; drawn again where a correlation would not be defined."""
    while True:
        rows = embedders[0][0].draw(rng)
        sampled = [[one.sample(rows) for one in by_seeds] for by_seeds in embedders]
        if all(np.ptp(group) > 0 for by_seeds in sampled for one in by_seeds for group in one.cosines):
            return sampled


def _scores(embedders: Iterable[BySeeds]) -> Matrix:
    """Score of every embedder, the mean over its seeds."""
    return np.array([np.mean([one.correlation(spearman) for one in by_seeds]) for by_seeds in embedders])
