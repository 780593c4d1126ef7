"""How vectors lie in space: alignment and uniformity, and two measures of isotropy. No correlation with anything."""

from collections.abc import Iterable
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from selfguide.data.sts import StsData
from selfguide.errors import InputError
from selfguide.evaluation.task import Score
from selfguide.evaluation.vectors import Vectors
from selfguide.similarity import alignment, uniformity

METRICS = ("alignment", "uniformity", "mean_cosine", "partition_isotropy")
POSITIVE_SCORE = 4.0
"""Pairs with this score or a higher one count as positive pairs."""


@final
class GeometryTask:
    """Alignment and uniformity (Wang and Isola, 2020) and isotropy on a data set of scored pairs.

    Alignment is the mean squared distance of the unit vectors of positive pairs (score 4 or more of 5); uniformity the log
    of the mean Gaussian potential between the unit vectors of all distinct sentences; both are better when lower. The
    isotropy measures are those of :func:`mean_pairwise_cosine` (0 at best) and :func:`partition_isotropy` (1 at best). All
    values are as they are, not x100.
    """

    def __init__(self, data: StsData) -> None:
        self.data = data

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self.data.name

    @property
    def revision(self) -> str:
        """Of the data."""
        return self.data.revision

    def sentences(self) -> Iterable[str]:
        """Both sentences of every pair."""
        for pair in self.data.pairs:
            yield from (pair.sentence1, pair.sentence2)

    def score(self, vectors: Vectors, *, seed: int) -> list[Score]:
        """The four measures; nothing here is drawn at random, so ``seed`` changes nothing.

        Raises:
            InputError: when there is no positive pair.
        """
        distinct = vectors.of(list(dict.fromkeys(self.sentences())))
        positives = [pair for pair in self.data.pairs if pair.score >= POSITIVE_SCORE]
        if not positives:
            raise InputError(f"{self.name} has no pair with a score of {POSITIVE_SCORE:g} or more to measure alignment on")
        left, right = vectors.of([pair.sentence1 for pair in positives]), vectors.of([pair.sentence2 for pair in positives])
        values = {
            "alignment": float(alignment(torch.from_numpy(left).double(), torch.from_numpy(right).double())),
            "uniformity": float(uniformity(torch.from_numpy(distinct).double())),
            "mean_cosine": mean_pairwise_cosine(distinct),
            "partition_isotropy": partition_isotropy(distinct),
        }
        protocol: dict[str, Any] = {
            "scale": 1,
            "text": self.data.text,
            "source": self.data.source,
            "positive_score": POSITIVE_SCORE,
            "positive_pairs": len(positives),
            "sentences": len(distinct),
        }
        split, revision = self.data.split, self.data.revision
        return [Score(self.name, split, metric, value, revision, protocol) for metric, value in values.items()]


def mean_pairwise_cosine(vectors: npt.NDArray[np.floating[Any]]) -> float:
    """Mean cosine of two different vectors: 0 when all directions are equally frequent, 1 when all are the same."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    unit = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    n = len(unit)
    # the squared length of the sum holds each pair twice, and each vector with itself
    return float((np.square(unit.sum(axis=0)).sum() - np.square(unit).sum()) / (n * (n - 1)))


def partition_isotropy(vectors: npt.NDArray[np.floating[Any]]) -> float:
    r"""I(W) of Mu and Viswanath (2018): smallest over largest value of Z(c) = :math:`\sum_w exp(c \cdot w)`.

    c runs over the eigenvectors of :math:`W^T W`, each with both signs, as the sign of an eigenvector is arbitrary. 1 when
    no direction is preferred, near 0 when one is. The vectors are taken as they are, so the measure depends on their scale.
    """
    wide = vectors.astype(np.float64)
    _, directions = np.linalg.eigh(wide.T @ wide)
    products = wide @ directions
    logs = [_log_sum_exp(sign * products) for sign in (1, -1)]
    return float(np.exp(np.min(logs) - np.max(logs)))


def _log_sum_exp(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Over the first axis."""
    highest = values.max(axis=0)
    sums: npt.NDArray[np.float64] = highest + np.log(np.exp(values - highest).sum(axis=0))
    return sums
