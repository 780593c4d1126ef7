"""How much there is to multiply when sentences are encoded: it bounds a gain where products take nearly all of the time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True)
class Shape:
    """The sizes of a BERT-like encoder."""

    layers: int
    dim: int
    wide: int
    """Of the feed-forward part."""

    @classmethod
    def of(cls, config: Any) -> "Shape":  # noqa: ANN401 - a config of transformers
        """From the configuration of a model."""
        return cls(config.num_hidden_layers, config.hidden_size, config.intermediate_size)


def our_products(shape: Shape, lengths: Sequence[int]) -> int:
    """Multiplications of rows of these lengths without padding, and of the last layer for their first tokens only."""
    tokens, pairs, rows = sum(lengths), sum(length**2 for length in lengths), len(lengths)
    first_tokens_alone = 2 * shape.dim**2 + 2 * shape.dim * shape.wide  # query, output and feed-forward
    last = tokens * 2 * shape.dim**2 + rows * first_tokens_alone + 2 * tokens * shape.dim
    return (shape.layers - 1) * _layer(shape, tokens, pairs) + last


def padded_products(shape: Shape, lengths: Sequence[int], *, batch_size: int) -> int:
    """Of rows in this order, in batches that are padded to their longest row; all layers for all tokens."""
    batches = [lengths[start : start + batch_size] for start in range(0, len(lengths), batch_size)]
    tokens = sum(len(batch) * max(batch) for batch in batches)
    pairs = sum(len(batch) * max(batch) ** 2 for batch in batches)
    return shape.layers * _layer(shape, tokens, pairs)


def _layer(shape: Shape, tokens: int, pairs: int) -> int:
    """Of one layer: four maps of all tokens, feed-forward, and attention among pairs of tokens of a row."""
    return tokens * (4 * shape.dim**2 + 2 * shape.dim * shape.wide) + 2 * pairs * shape.dim
