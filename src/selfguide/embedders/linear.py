"""What the embedders share that put a linear map behind a pooling: PCA and whitening."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from selfguide.data.texts import Texts
from selfguide.devices import fast_products
from selfguide.embedders.base import EncoderEmbedder, Vectors, in_parts
from selfguide.embedders.folder import write_record
from selfguide.embedders.layer_pooling import LayerPooling, parse_layer_pooling
from selfguide.embedders.pooled import check_finite, pooled_vectors
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from selfguide.files import atomic_folder

Matrix = npt.NDArray[np.float64]

EMPTY = 1e-10
"""A direction with less than this part of the largest variance holds nothing but the rounding of float32 vectors."""


class LinearEmbedder(EncoderEmbedder):
    """``(x - shift) W``, normalised, of pooled vectors x; a plain sentence-transformers folder when it is saved."""

    pooling: str
    dimensions: int | None

    def __init__(self, encoder: Encoder, *, pooling: str, dimensions: int | None) -> None:
        self.encoder, self.pooling, self.dimensions = encoder, pooling, dimensions
        self.check_parameters()

    @abstractmethod
    def shift_and_weight(self) -> tuple[Vectors, Vectors]:
        """What was learned: ``(dim,)`` and ``(dim, dimensions)``."""

    @property
    def kept(self) -> int:
        """Dimensions of a vector."""
        return self.dimensions or self.encoder.dim

    @property
    def layer_pooling(self) -> LayerPooling:
        """The layers, and the pooling over tokens."""
        return parse_layer_pooling(self.pooling, layer=None, layer_count=self.encoder.layer_count)

    @property
    def protocol(self) -> dict[str, Any]:
        """As of any embedder, with the layers."""
        return {**super().protocol, "layers": list(self.layer_pooling.layers)}

    def dense(self) -> tuple[Vectors, Vectors]:
        """The map as a linear layer: weight ``(dimensions, dim)`` and bias ``(dimensions,)``."""
        shift, weight = (part.astype(np.float64) for part in self.shift_and_weight())
        return weight.T.astype(np.float32), (-weight.T @ shift).astype(np.float32)

    def save(self, folder: str | Path) -> None:
        """Write a sentence-transformers folder that gives the same vectors, and what :func:`selfguide.load` reads.

        Raises:
            InputError: when it has to be fitted first.
        """
        self.check_fitted()
        layers = self.layer_pooling
        with atomic_folder(Path(folder).expanduser()) as place:
            save_encoder(self.encoder, place, pooling=layers.pooling, layers=layers.layers, dense=self.dense())
            write_record(self, place, encoder=".")

    def check_parameters(self) -> None:
        """Refuse a pooling that is not known, and more dimensions than there are.

        Raises:
            InputError: when something is wrong.
        """
        _ = self.layer_pooling  # knows the names
        check_dimensions(self.dimensions, self.encoder)

    def check_learned(self) -> None:
        """Refuse sizes that do not go with the encoder and the dimensions.

        Raises:
            InputError: when they do not.
        """
        found = tuple(part.shape for part in self.shift_and_weight())
        wanted = (self.encoder.dim,), (self.encoder.dim, self.kept)
        if found != wanted:
            raise InputError(
                f"the fitted {self.kind} has sizes {found[0]} and {found[1]}, but {self.kept} of {self.encoder.dim} "
                f"dimensions have {wanted[0]} and {wanted[1]}; fit it again, or put the numbers back"
            )

    def _vectors(self, sentences: Sequence[str]) -> Tensor:
        self.check_learned()  # set_params may have changed the dimensions
        shift, weight = map(torch.from_numpy, self.shift_and_weight())
        vectors = pooled_vectors(self.encoder, sentences, self.layer_pooling)
        return torch.nn.functional.normalize((vectors - shift) @ weight)

    def fitting_vectors(self, sentences: Texts) -> Iterable[Matrix]:
        """Pooled vectors of the sentences, a part at a time.

        Raises:
            InputError: when a value is not finite.
        """
        for part in in_parts(sentences):
            with fast_products(self.encoder.model.device):
                vectors = pooled_vectors(self.encoder, part, self.layer_pooling)
            check_finite(vectors, part, self.encoder)
            yield vectors.double().numpy()


def check_dimensions(dimensions: int | None, encoder: Encoder) -> None:
    """Refuse more dimensions than an encoder has.

    Raises:
        InputError: when there are not so many.
    """
    if dimensions is not None and not 1 <= dimensions <= encoder.dim:
        raise InputError(f"--dimensions is {dimensions}; '{encoder.name}' has {encoder.dim}: give 1 to {encoder.dim}")
