"""The vectors of a whole suite: each distinct sentence goes through the embedder once."""

from collections.abc import Iterable, Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from selfguide.embedders.protocol import Embedder
from selfguide.errors import InputError


@final
class Vectors:
    """Vectors by sentence."""

    def __init__(self, embedder: Embedder, sentences: Iterable[str]) -> None:
        """Embed the distinct sentences.

        Raises:
            InputError: when a vector holds a value that is not finite, naming the sentence.
        """
        self._rows = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
        distinct = list(self._rows)
        self._vectors = embedder.encode(distinct)
        finite = np.isfinite(self._vectors).all(axis=1)
        if not finite.all():
            worst = distinct[int(np.flatnonzero(~finite)[0])]
            raise InputError(f"'{embedder.name}' gives a vector with values that are not finite for: {worst!r}")

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of these sentences, ``(n, dim)``."""
        return self._vectors[[self._rows[sentence] for sentence in sentences]]
