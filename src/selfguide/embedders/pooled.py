"""An encoder with a pooling, used as it is: sentences in, vectors out."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from selfguide.devices import fast_products, product_precision
from selfguide.embedders.layer_pooling import parse_layer_pooling
from selfguide.encoders.encoder import Encoder, embed_rows, map_rows, run_states
from selfguide.encoders.fingerprint import weights_sha256


@final
class PooledEmbedder:
    """Pooled states of one layer, or of several averaged; see :func:`parse_layer_pooling` for the names."""

    def __init__(
        self, encoder: Encoder, *, pooling: str = "cls", layer: int | None = None, tokens_per_batch: int = 8192
    ) -> None:
        """Use an encoder where it is; ``layer`` is the last one by default.

        Raises:
            InputError: when the pooling or the layer is not known.
        """
        self.encoder, self.pooling, self.tokens_per_batch = encoder, pooling, tokens_per_batch
        self.layer_pooling = parse_layer_pooling(pooling, layer=layer, layer_count=encoder.layer_count)

    @property
    def name(self) -> str:
        """Such as ``bert-base-uncased/cls``, or ``bert-base-uncased/mean@6`` for a layer before the last one."""
        is_inner = len(self.layer_pooling.layers) == 1 and not self._reads_last_layer
        return f"{Path(self.encoder.name).name}/{self.pooling}" + (f"@{self.layer_pooling.layers[0]}" if is_inner else "")

    @property
    def protocol(self) -> dict[str, Any]:
        """Pooling, layers, longest input, precision of the products, and the hash of the weights."""
        return {
            "pooling": self.pooling,
            "layers": list(self.layer_pooling.layers),
            "max_length": self.encoder.max_length,
            "precision": product_precision(self.encoder.model.device),
            "weights": self._weights,
        }

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given."""
        rows = self.encoder.tokenize(sentences)
        with fast_products(self.encoder.model.device):
            if self._reads_last_layer:  # the other layers need not be kept
                vectors = embed_rows(
                    self.encoder, rows, pooling=self.layer_pooling.pooling, tokens_per_batch=self.tokens_per_batch
                )
            else:
                vectors = map_rows(
                    self.encoder, rows, self._read, shape=(self.encoder.dim,), tokens_per_batch=self.tokens_per_batch
                )
        return np.asarray(vectors.numpy(), dtype=np.float32)

    @property
    def _reads_last_layer(self) -> bool:
        return self.layer_pooling.layers == (self.encoder.layer_count,)

    @cached_property
    def _weights(self) -> str:
        return weights_sha256(self.encoder.model)

    def _read(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.layer_pooling.vectors(run_states(self.encoder.model, ids, mask))
