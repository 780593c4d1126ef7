"""An encoder with a pooling, used as it is: sentences in, vectors out."""

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from selfguide.encoders.encoder import Encoder, embed_rows


@final
class PooledEmbedder:
    """Vectors of the last layer."""

    def __init__(self, encoder: Encoder, *, pooling: str = "cls", tokens_per_batch: int = 8192) -> None:
        self.encoder, self.pooling, self.tokens_per_batch = encoder, pooling, tokens_per_batch

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given."""
        rows = self.encoder.tokenize(sentences)
        vectors = embed_rows(self.encoder, rows, pooling=self.pooling, tokens_per_batch=self.tokens_per_batch)
        return np.asarray(vectors.numpy(), dtype=np.float32)
