"""The dev score: cosine Spearman on labelled pairs, tokenised once."""

from functools import cached_property
from typing import final

import torch

from selfguide.data.pairs import ScoredPairs
from selfguide.encoders.encoder import Encoder, PaddedBatch, embed_batches, padded_batches
from selfguide.similarity import paired_cosines, spearman


@final
class DevScore:
    """Scores the encoder, as it is at the moment, on the same pairs."""

    def __init__(self, encoder: Encoder, pairs: ScoredPairs, *, pooling: str) -> None:
        self.encoder, self.pairs, self.pooling = encoder, pairs, pooling

    def __call__(self) -> float:
        """Spearman x100."""
        place = torch.empty(2 * len(self.pairs), self.encoder.dim, device=self.encoder.model.device)
        vectors = embed_batches(self.encoder, self._batches, self.pooling, into=place).cpu()
        left, right = vectors[: len(self.pairs)], vectors[len(self.pairs) :]
        return spearman(paired_cosines(left.numpy(), right.numpy()), self.pairs.scores)

    @cached_property
    def _batches(self) -> list[PaddedBatch]:
        """Of all sentences, where the encoder is trained."""
        rows = self.encoder.tokenize([*self.pairs.sentences1, *self.pairs.sentences2])
        return list(padded_batches(self.encoder, rows, self.encoder.model.device))
