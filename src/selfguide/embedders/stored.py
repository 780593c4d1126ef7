"""Another embedder's vectors as a store would hold them: cut, as int8, or as bits."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from selfguide.compact import Scale, signs
from selfguide.embedders.protocol import Embedder
from selfguide.errors import InputError

SAMPLE = 20_000
"""Sentences, the first ones, that the scale of int8 vectors is taken from."""


@final
class StoredVectors:
    """An embedder whose vectors are what is left of another's once they were stored.

    int8 vectors are the codes themselves, which is what a store compares; bits are given as 1 and -1, whose cosine is the
    Hamming distance in other words.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        vectors: str = "float32",
        truncate_dim: int | None = None,
        sentences: Sequence[str] | None = None,
    ) -> None:
        """Look at an embedder through what it is stored as.

        Args:
            embedder: Whose vectors they are.
            vectors: ``float32``, ``int8`` or ``binary``.
            truncate_dim: Dimensions that are kept, the first ones; all by default.
            sentences: For int8, which takes the scale from their vectors.

        Raises:
            InputError: when there are not so many dimensions, or no sentences for int8.
        """
        self.embedder, self.vectors, self.truncate_dim = embedder, vectors, truncate_dim
        self._scale: Scale | None = None
        if vectors == "int8":
            if not sentences:
                raise InputError("int8 vectors have a scale, which is taken from text: give sentences with --fit-on F")
            self._scale = Scale.of(self._cut(sentences))

    @property
    def name(self) -> str:
        """Such as ``mini/sg-opt (int8)`` or ``mini/sg-opt (first 64, int8)``."""
        parts = [f"first {self.truncate_dim}"] if self.truncate_dim is not None else []
        parts += [self.vectors] if self.vectors != "float32" else []
        return f"{self.embedder.name} ({', '.join(parts)})" if parts else self.embedder.name

    @property
    def protocol(self) -> dict[str, Any]:
        """That of the embedder, and what became of its vectors."""
        return {
            **self.embedder.protocol,
            "vectors": self.vectors,
            **({"truncate_dim": self.truncate_dim} if self.truncate_dim is not None else {}),
            **({"int8_step": self._scale.step} if self._scale else {}),
            **({"similarity": "hamming"} if self.vectors == "binary" else {}),
        }

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given.

        Raises:
            InputError: when there are not so many dimensions.
        """
        cut = self._cut(sentences)
        if self._scale:
            return self._scale.codes(cut).astype(np.float32)
        return signs(cut) if self.vectors == "binary" else cut

    def _cut(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        vectors = np.asarray(self.embedder.encode(sentences), np.float32)
        if self.truncate_dim is not None and self.truncate_dim > vectors.shape[1]:
            raise InputError(
                f"--truncate-dim is {self.truncate_dim}; the vectors have {vectors.shape[1]} dimensions: give at most that"
            )
        return vectors[:, : self.truncate_dim]
