"""STS: how well the cosine of two sentences' vectors follows the score that people gave them. No regressor on top."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from selfguide.choices import AGGREGATIONS
from selfguide.data.digests import Pair
from selfguide.data.sts import StsData
from selfguide.errors import InputError
from selfguide.evaluation.predictions import Predictions
from selfguide.evaluation.task import Score
from selfguide.evaluation.vectors import Vectors
from selfguide.similarity import paired_cosines, pearson, spearman

logger = logging.getLogger(__name__)

METRICS = {"spearman": spearman, "pearson": pearson}

_EQUAL_COSINES = 1e-6
"""Cosines of vectors that are all equal differ by rounding only, and must not be ranked."""


@final
class StsTask:
    """A data set of scored pairs, by cosine.

    Several subsets are scored together (``all``: one correlation over all their pairs), or each on its own, and the mean
    taken (``mean``), or the mean weighted by their pairs (``wmean``). The numbers of one set differ by many points between
    these.
    """

    def __init__(self, data: StsData, *, aggregation: str = "all") -> None:
        """Take over the pairs.

        Raises:
            InputError: when the aggregation is not known.
        """
        if aggregation not in AGGREGATIONS:
            raise InputError(f"aggregation '{aggregation}' is not known; choose one of: {', '.join(AGGREGATIONS)}")
        self.data, self.aggregation = data, aggregation

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
        """Spearman's and Pearson's correlation; nothing here is drawn at random, so ``seed`` changes nothing.

        Raises:
            InputError: when the cosines are all equal, so that no correlation is defined.
        """
        predictions, protocol = self.predict(vectors), self._protocol(vectors)
        return [
            Score(
                dataset=self.name,
                split=self.data.split,
                metric=metric,
                value=predictions.correlation(correlate),
                revision=self.data.revision,
                protocol=protocol,
            )
            for metric, correlate in METRICS.items()
        ]

    def predict(self, vectors: Vectors) -> Predictions:
        """Cosines beside the gold scores, in the groups that the aggregation makes.

        Raises:
            InputError: when the cosines of a group are all equal, so that no correlation is defined.
        """
        groups = [self.data.pairs] if self.aggregation == "all" else self.data.subsets
        return Predictions(
            cosines=tuple(self._cosines(vectors, group) for group in groups),
            gold=tuple(np.array([pair.score for pair in group]) for group in groups),
            weights=tuple(float(len(group)) if self.aggregation == "wmean" else 1.0 for group in groups),
        )

    def _cosines(self, vectors: Vectors, pairs: Sequence[Pair]) -> npt.NDArray[np.float64]:
        cosines = paired_cosines(
            vectors.of([pair.sentence1 for pair in pairs]), vectors.of([pair.sentence2 for pair in pairs])
        )
        if np.ptp(cosines) < _EQUAL_COSINES:
            raise InputError(
                f"'{vectors.embedder}' gives the same cosine ({cosines[0]:.6f}) for all {len(pairs)} pairs of {self.name}: "
                "its vectors are constant, and no correlation is defined"
            )
        return cosines

    def _protocol(self, vectors: Vectors) -> dict[str, Any]:
        protocol = {
            "similarity": "cosine",
            "aggregation": self.aggregation,
            "text": self.data.text,
            "source": self.data.source,
            "pairs": len(self.data.pairs),
        }
        zeros = int((~vectors.of(list(dict.fromkeys(self.sentences()))).any(axis=1)).sum())
        if zeros:
            logger.warning("%s: %d sentences have the zero vector; its cosine counts as 0", self.name, zeros)
        return {**protocol, **({"zero_vectors": zeros} if zeros else {})}
