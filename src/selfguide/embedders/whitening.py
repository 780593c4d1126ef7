"""Whitening: pooled vectors, moved and turned so that over the fitting sentences every direction varies alike."""

from collections.abc import Iterable
from typing import Self, final

import numpy as np

from selfguide.data.texts import Texts
from selfguide.embedders.base import Vectors, check_sentences
from selfguide.embedders.linear import EMPTY, LinearEmbedder, Matrix
from selfguide.encoders.encoder import Encoder
from selfguide.errors import InputError


@final
class WhiteningEmbedder(LinearEmbedder):
    """``(x - mean) U s^(-1/2)``, normalised, where the covariance of the fitting vectors x is ``U diag(s) U'``.

    Su et al. (2021), *Whitening Sentence Representations for Better Semantics and Faster Retrieval*. The directions are in
    the order of their variance, so that the first ``dimensions`` are those that vary most.

    Attributes:
        mean_: Mean of the pooled vectors, ``(dim,)``.
        whitening_: ``(dim, dimensions)``.
    """

    kind = "whitening"
    learned = ("mean_", "whitening_")
    mean_: Vectors
    whitening_: Vectors

    def __init__(self, encoder: Encoder, *, pooling: str = "first-last", dimensions: int | None = None) -> None:
        """Whiten a pooling of an encoder; ``dimensions`` are all by default.

        Raises:
            InputError: when the pooling is not known, or there are not so many dimensions.
        """
        super().__init__(encoder, pooling=pooling, dimensions=dimensions)

    def fit(self, sentences: Texts, y: object = None) -> Self:
        """Learn mean and covariance of the sentences' vectors; only a part of the vectors is in memory at a time.

        Raises:
            InputError: when there are too few sentences, or they do not vary in as many directions as are kept.
        """
        check_sentences(sentences)
        self.check_parameters()  # once more, as set_params may have changed them
        kept = self.kept
        if len(sentences) <= kept:
            raise InputError(
                f"{len(sentences)} sentences were given to whiten {kept} dimensions; n sentences vary in n - 1 directions "
                f"at most: give more than {kept} sentences, or keep fewer dimensions (--dimensions)"
            )
        mean, covariance = _mean_and_covariance(self.fitting_vectors(sentences))
        directions, variances, _ = np.linalg.svd(covariance, hermitian=True)
        rank = int((variances > EMPTY * variances[0]).sum())
        if not rank:
            raise InputError(f"the vectors of '{self.name}' are the same for all sentences; give sentences that differ")
        if rank < kept:
            raise InputError(
                f"the vectors of '{self.name}' vary in {rank} of {self.encoder.dim} directions over these sentences, and "
                f"{self.encoder.dim - rank} are empty: keep at most {rank} (--dimensions {rank}), or give more and other "
                "sentences"
            )
        self.mean_ = mean.astype(np.float32)
        self.whitening_ = (directions[:, :kept] / np.sqrt(variances[:kept])).astype(np.float32)
        return self

    def shift_and_weight(self) -> tuple[Vectors, Vectors]:
        """Mean and whitening matrix."""
        return self.mean_, self.whitening_


def _mean_and_covariance(parts: Iterable[Matrix]) -> tuple[Matrix, Matrix]:
    """Of rows that come in parts, merged as Chan et al. (1979) do, which loses no digits to a large mean."""
    count, mean, scatter = 0, np.zeros(()), np.zeros(())
    for part in parts:
        centre = part.mean(axis=0)
        rest, shift, total = part - centre, centre - mean, count + len(part)
        scatter = scatter + rest.T @ rest + np.outer(shift, shift) * (count * len(part) / total)
        mean = mean + shift * (len(part) / total)
        count = total
    return mean, scatter / (count - 1)
