"""An encoder with a pooling, used as it is: sentences in, vectors out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from torch import Tensor

from selfguide.embedders.base import EncoderEmbedder
from selfguide.embedders.layer_pooling import LayerPooling, parse_layer_pooling
from selfguide.encoders.encoder import Encoder, embed_rows, map_rows, run_states
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from selfguide.files import atomic_folder


@final
class PooledEmbedder(EncoderEmbedder):
    """Pooled states of one layer, or of several averaged; see :func:`parse_layer_pooling` for the names."""

    kind = "pooled"

    def __init__(self, encoder: Encoder, *, pooling: str = "cls", layer: int | None = None) -> None:
        """Use an encoder where it is; ``layer`` is the last one by default.

        Raises:
            InputError: when the pooling or the layer is not known.
        """
        self.encoder, self.pooling, self.layer = encoder, pooling, layer
        _ = self.layer_pooling  # a wrong name is told at once

    @property
    def layer_pooling(self) -> LayerPooling:
        """The layers, and the pooling over tokens."""
        return parse_layer_pooling(self.pooling, layer=self.layer, layer_count=self.encoder.layer_count)

    @property
    def name(self) -> str:
        """Such as ``bert-base-uncased/cls``, or ``bert-base-uncased/mean@6`` for a layer before the last one."""
        layers = self.layer_pooling.layers
        is_inner = len(layers) == 1 and not self._reads_last_layer
        return f"{Path(self.encoder.name).name}/{self.pooling}" + (f"@{layers[0]}" if is_inner else "")

    @property
    def protocol(self) -> dict[str, Any]:
        """Pooling, layers, longest input, precision of the products, and the hash of the weights."""
        protocol = {**super().protocol, "pooling": self.pooling, "layers": list(self.layer_pooling.layers)}
        del protocol["embedder"], protocol["layer"]
        return protocol

    def save(self, folder: str | Path) -> None:
        """Write a plain sentence-transformers folder that gives the same vectors; :func:`selfguide.load` takes it as one."""
        with atomic_folder(Path(folder).expanduser()) as place:
            save_encoder(self.encoder, place, pooling=self.layer_pooling.pooling, layers=self.layer_pooling.layers)

    def _vectors(self, sentences: Sequence[str]) -> Tensor:
        return pooled_vectors(self.encoder, sentences, self.layer_pooling)

    @property
    def _reads_last_layer(self) -> bool:
        return self.layer_pooling.layers == (self.encoder.layer_count,)


def pooled_vectors(encoder: Encoder, sentences: Sequence[str], pooling: LayerPooling) -> Tensor:
    """Vectors ``(n, dim)`` on the CPU."""
    rows = encoder.tokenize(sentences)
    if pooling.layers == (encoder.layer_count,):  # the other layers need not be kept
        return embed_rows(encoder, rows, pooling=pooling.pooling)

    def read(ids: Tensor, mask: Tensor) -> Tensor:
        return pooling.vectors(run_states(encoder.model, ids, mask))

    return map_rows(encoder, rows, read, shape=(encoder.dim,))


def check_finite(vectors: Tensor, sentences: Sequence[str], encoder: Encoder) -> None:
    """Refuse vectors that nothing can be learned from; ``(n, dim)``, one for each sentence.

    Raises:
        InputError: when a value is not finite.
    """
    finite = vectors.isfinite().all(dim=1)
    if not finite.all():
        worst = sentences[int((~finite).nonzero()[0])]
        raise InputError(f"'{encoder.name}' gives a vector with values that are not finite for: {worst!r}")
