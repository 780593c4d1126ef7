"""The vectors of a whole suite: each distinct sentence goes through the embedder once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from selfguide.embedders.protocol import Embedder
from selfguide.errors import InputError
from selfguide.progress import OnProgress

_PARTS = 50
"""Times that progress is told."""
_SMALLEST_PART = 256


@final
class Vectors:
    """Vectors by sentence."""

    def __init__(
        self, embedder: Embedder, sentences: Iterable[str], *, on_progress: OnProgress = lambda done, total: None
    ) -> None:
        """Embed the distinct sentences.

        Raises:
            InputError: when the embedder does not give a vector for each sentence, or one with a value that is not finite;
                the sentence is named.
        """
        self.embedder = embedder.name
        self._rows = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
        distinct = list(self._rows)
        self._vectors = np.empty((0, 0), np.float32)
        for rows in in_parts(distinct, on_progress):
            vectors = _embed(embedder, [distinct[row] for row in rows])
            if not len(self._vectors):
                self._vectors = np.empty((len(distinct), vectors.shape[1]), np.float32)
            self._vectors[rows] = vectors

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of these sentences, ``(n, dim)``."""
        return self._vectors[[self._rows[sentence] for sentence in sentences]]


def in_parts(sentences: Sequence[str], on_progress: OnProgress) -> Iterator[list[int]]:
    """Positions of sentences of like length, a part of them at a time; progress is told after each part.

    The longest come first, so that memory runs out at once or never.
    """
    order = sorted(range(len(sentences)), key=lambda position: len(sentences[position]), reverse=True)
    size = max(_SMALLEST_PART, -(-len(order) // _PARTS))
    for start in range(0, len(order), size):
        yield order[start : start + size]
        on_progress(min(start + size, len(order)), len(order))


def _embed(embedder: Embedder, sentences: list[str]) -> npt.NDArray[np.float32]:
    vectors = np.asarray(embedder.encode(sentences), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(sentences):
        raise InputError(
            f"'{embedder.name}' gives an array of shape {vectors.shape} for {len(sentences)} sentences; "
            f"({len(sentences)}, dim) is needed"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        worst = sentences[int(np.flatnonzero(~finite)[0])]
        raise InputError(f"'{embedder.name}' gives a vector with values that are not finite for: {worst!r}")
    return vectors
