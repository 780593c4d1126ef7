"""How near the vectors of an exported model are to PyTorch's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from selfguide.embedders.protocol import Embedder
from selfguide.similarity import paired_cosines

_ALONE = 8
"""Sentences that are also encoded one at a time."""


@final
@dataclass(frozen=True)
class Agreement:
    """What was measured.

    Attributes:
        sentences: Number of sentences; the last of them is all others in a row, and is cut.
        max_difference: Of any two numbers.
        mean_cosine: Of the vectors of the same sentence.
        lowest_cosine: Of these.
    """

    sentences: int
    max_difference: float
    mean_cosine: float
    lowest_cosine: float

    def distance(self, precision: str) -> float:
        """What the tolerance of a precision is for: the largest difference for float32, 1 - mean cosine for int8."""
        return self.max_difference if precision == "float32" else 1 - self.mean_cosine


def measure(exact: Embedder, exported: Embedder, sentences: Sequence[str]) -> Agreement:
    """Compare vectors of the same sentences: in batches of several sizes and lengths, and some one at a time.

    Sizes that are not the same count as an infinite distance.
    """
    texts = [*sentences, " ".join(sentences)]
    wanted = exact.encode(texts)
    alone = [exported.encode([text]) for text in texts[:_ALONE]]
    together = exported.encode(texts)
    if together.shape != wanted.shape:
        return Agreement(len(texts), float("inf"), float("-inf"), float("-inf"))
    found = np.concatenate([together, *alone])
    return _compare(np.concatenate([wanted, wanted[: len(alone)]]), found, len(texts))


def _compare(wanted: npt.NDArray[np.float32], found: npt.NDArray[np.float32], sentences: int) -> Agreement:
    cosines = paired_cosines(wanted, found)
    difference = np.abs(wanted - found).max()
    return Agreement(sentences, float(difference), float(cosines.mean()), float(cosines.min()))
