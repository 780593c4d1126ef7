"""Whitening: pooled vectors, moved and turned so that over the fitting sentences every direction varies alike."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from selfguide.data.texts import Texts
from selfguide.devices import fast_products
from selfguide.embedders.base import EncoderEmbedder, Vectors, check_sentences, in_parts
from selfguide.embedders.folder import write_record
from selfguide.embedders.layer_pooling import LayerPooling, parse_layer_pooling
from selfguide.embedders.pooled import check_finite, pooled_vectors
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from selfguide.files import atomic_folder

Matrix = npt.NDArray[np.float64]

_EMPTY = 1e-10
"""A direction with less than this part of the largest variance holds nothing but the rounding of float32 vectors."""


@final
class WhiteningEmbedder(EncoderEmbedder):
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
        self.encoder, self.pooling, self.dimensions = encoder, pooling, dimensions
        self._check_parameters()

    @property
    def layer_pooling(self) -> LayerPooling:
        """The layers, and the pooling over tokens."""
        return parse_layer_pooling(self.pooling, layer=None, layer_count=self.encoder.layer_count)

    @property
    def protocol(self) -> dict[str, Any]:
        """As of any embedder, with the layers."""
        return {**super().protocol, "layers": list(self.layer_pooling.layers)}

    def fit(self, sentences: Texts, y: object = None) -> Self:
        """Learn mean and covariance of the sentences' vectors; only a part of the vectors is in memory at a time.

        Raises:
            InputError: when there are too few sentences, or they do not vary in as many directions as are kept.
        """
        check_sentences(sentences)
        self._check_parameters()  # once more, as set_params may have changed them
        kept = self.dimensions or self.encoder.dim
        if len(sentences) <= kept:
            raise InputError(
                f"{len(sentences)} sentences were given to whiten {kept} dimensions; n sentences vary in n - 1 directions "
                f"at most: give more than {kept} sentences, or keep fewer dimensions (--dimensions)"
            )
        mean, covariance = _mean_and_covariance(self._fitting_vectors(sentences))
        directions, variances, _ = np.linalg.svd(covariance, hermitian=True)
        rank = int((variances > _EMPTY * variances[0]).sum())
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

    def save(self, folder: str | Path) -> None:
        """Write a sentence-transformers folder that gives the same vectors, and what :func:`selfguide.load` reads.

        Raises:
            InputError: when it has to be fitted first.
        """
        self.check_fitted()
        weight, mean = self.whitening_.astype(np.float64).T, self.mean_.astype(np.float64)
        dense = weight.astype(np.float32), (-weight @ mean).astype(np.float32)
        layers = self.layer_pooling
        with atomic_folder(Path(folder).expanduser()) as place:
            save_encoder(self.encoder, place, pooling=layers.pooling, layers=layers.layers, dense=dense)
            write_record(self, place, encoder=".")

    def _check_parameters(self) -> None:
        _ = self.layer_pooling  # knows the names
        if self.dimensions is not None and not 1 <= self.dimensions <= self.encoder.dim:
            most = self.encoder.dim
            raise InputError(f"--dimensions is {self.dimensions}; '{self.encoder.name}' has {most}: give 1 to {most}")

    def check_learned(self) -> None:
        """Refuse sizes that do not go with the encoder and the dimensions.

        Raises:
            InputError: when they do not.
        """
        dim, kept = self.encoder.dim, self.dimensions or self.encoder.dim
        if self.mean_.shape != (dim,) or self.whitening_.shape != (dim, kept):
            raise InputError(
                f"the fitted whitening has sizes {self.mean_.shape} and {self.whitening_.shape}, but {kept} of {dim} "
                f"dimensions have {(dim,)} and {(dim, kept)}; fit it again, or put the numbers back"
            )

    def _vectors(self, sentences: Sequence[str]) -> Tensor:
        self.check_learned()  # set_params may have changed the dimensions
        vectors = pooled_vectors(self.encoder, sentences, self.layer_pooling)
        white = (vectors - torch.from_numpy(self.mean_)) @ torch.from_numpy(self.whitening_)
        return torch.nn.functional.normalize(white)

    def _fitting_vectors(self, sentences: Texts) -> Iterable[Matrix]:
        for part in in_parts(sentences):
            with fast_products(self.encoder.model.device):
                vectors = pooled_vectors(self.encoder, part, self.layer_pooling)
            check_finite(vectors, part, self.encoder)
            yield vectors.double().numpy()


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
