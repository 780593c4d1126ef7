"""Vectors in less room: whole numbers of 8 bits, or one bit a dimension."""

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from selfguide.errors import InputError

Vectors = npt.NDArray[np.float32]


@final
@dataclass(frozen=True)
class Scale:
    """What a step of int8 is worth: the same in every dimension, with 0 at 0.

    So the cosine of codes is that of the vectors, to rounding, in any store. With a range of its own for each dimension,
    from the least value to the largest, the codes are moved and stretched, and their cosines are others.
    """

    step: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.step) and self.step > 0):
            raise InputError(f"the step of int8 vectors is {self.step}; it must be a number greater than 0")

    @classmethod
    def of(cls, vectors: Vectors) -> "Scale":
        """The scale whose codes go up to 127 for the largest number in some vectors.

        Raises:
            InputError: when the vectors are all 0, or not finite.
        """
        return cls(float(np.float32(np.abs(vectors).max(initial=0) / 127)))

    @property
    def ranges(self) -> Vectors:
        """Lower and upper end, ``(2, 1)``: what ``sentence_transformers.util.quantize_embeddings`` takes as ``ranges``."""
        return np.array([[-128.5 * self.step], [126.5 * self.step]], np.float32)

    def codes(self, vectors: Vectors) -> npt.NDArray[np.int8]:
        """Vectors in steps, rounded; what is beyond the ends is put there. As sentence-transformers does it."""
        start, end = self.ranges.astype(np.float32)
        steps = np.floor((vectors - start) / ((end - start) / 255))
        found: npt.NDArray[np.int8] = (np.clip(steps, 0, 255) - 128).astype(np.int8)
        return found


def bits(vectors: Vectors) -> npt.NDArray[np.uint8]:
    """One bit a dimension, 1 where it is greater than 0, eight in a byte: ``(n, dim) -> (n, dim / 8)``, rounded up.

    The same as ``quantize_embeddings(vectors, "ubinary")`` of sentence-transformers.
    """
    return np.packbits(vectors > 0, axis=-1)


def signs(vectors: Vectors) -> Vectors:
    """1 where greater than 0, else -1: the cosine of two of these is 1 - 2 h / dim, h being the Hamming distance of bits."""
    return np.where(vectors > 0, np.float32(1), np.float32(-1))
