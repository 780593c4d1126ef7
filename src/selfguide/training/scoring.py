"""The dev score: cosine Spearman on labelled pairs, tokenised once."""

from typing import final

from selfguide.data.pairs import ScoredPairs
from selfguide.encoders.encoder import Encoder, embed_rows
from selfguide.similarity import paired_cosines, spearman


@final
class DevScore:
    """Scores the encoder, as it is at the moment, on the same pairs."""

    def __init__(self, encoder: Encoder, pairs: ScoredPairs, *, pooling: str, tokens_per_batch: int) -> None:
        self.encoder, self.pairs = encoder, pairs
        self.pooling, self.tokens_per_batch = pooling, tokens_per_batch
        self._rows = encoder.tokenize([*pairs.sentences1, *pairs.sentences2])

    def __call__(self) -> float:
        """Spearman x100."""
        vectors = embed_rows(self.encoder, self._rows, pooling=self.pooling, tokens_per_batch=self.tokens_per_batch)
        left, right = vectors[: len(self.pairs)], vectors[len(self.pairs) :]
        return spearman(paired_cosines(left.numpy(), right.numpy()), self.pairs.scores)
