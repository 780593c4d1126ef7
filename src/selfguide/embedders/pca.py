"""PCA about the origin: pooled vectors in fewer dimensions, with the cosines that they had as nearly as can be."""

from typing import Self, final

import numpy as np

from selfguide.data.texts import Texts
from selfguide.embedders.base import Vectors, check_sentences
from selfguide.embedders.linear import EMPTY, LinearEmbedder, Matrix
from selfguide.encoders.encoder import Encoder
from selfguide.errors import InputError


@final
class PcaEmbedder(LinearEmbedder):
    """``x V``, normalised, where V are the first eigenvectors of the mean of ``x' x`` over the fitting vectors.

    Of all projections to so many dimensions this one keeps most of the fitting vectors' squared length. Nothing is moved or
    scaled, as whitening does: an encoder that was trained for its cosines does not need it (``docs/smaller.md``). The
    directions are in the order of what they hold, so that the vectors can be cut again.

    Attributes:
        directions_: ``(dim, dimensions)``, orthonormal columns.
    """

    kind = "pca"
    learned = ("directions_",)
    directions_: Vectors

    def __init__(self, encoder: Encoder, *, pooling: str = "cls", dimensions: int | None = None) -> None:
        """Reduce a pooling of an encoder; ``dimensions`` are all by default.

        Raises:
            InputError: when the pooling is not known, or there are not so many dimensions.
        """
        super().__init__(encoder, pooling=pooling, dimensions=dimensions)

    def fit(self, sentences: Texts, y: object = None) -> Self:
        """Learn the directions; only a part of the vectors is in memory at a time.

        Raises:
            InputError: when there are fewer sentences than dimensions, or all have the same vector.
        """
        check_sentences(sentences)
        self.check_parameters()  # once more, as set_params may have changed them
        if len(sentences) < self.kept:
            raise InputError(
                f"{len(sentences)} sentences were given to find {self.kept} directions: give at least {self.kept} "
                "sentences, or keep fewer dimensions (--dimensions)"
            )
        moment = sum((part.T @ part for part in self.fitting_vectors(sentences)), np.zeros(())) / len(sentences)
        directions, sizes, _ = np.linalg.svd(moment, hermitian=True)
        if len(sizes) > 1 and sizes[1] <= EMPTY * sizes[0]:
            raise InputError(f"the vectors of '{self.name}' are the same for all sentences; give sentences that differ")
        self.directions_ = np.ascontiguousarray(_signed(directions)[:, : self.kept], np.float32)
        return self

    def shift_and_weight(self) -> tuple[Vectors, Vectors]:
        """Nothing, and the directions."""
        return np.zeros(self.encoder.dim, np.float32), self.directions_


def _signed(directions: Matrix) -> Matrix:
    """The same columns, each with its largest entry positive: the sign of an eigenvector is arbitrary."""
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=0)[None], axis=0)
    return directions * np.where(largest < 0, -1.0, 1.0)
