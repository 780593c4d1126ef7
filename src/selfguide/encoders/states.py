"""The token states of every layer, with one convention for their numbers."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from selfguide.errors import InputError


@final
@dataclass(frozen=True)
class EncoderStates:
    """Token states of one batch: layer 0 is the embedding output, 1..l are the transformer layers."""

    hidden: tuple[Tensor, ...]
    """l + 1 tensors of shape ``(batch, tokens, dim)``."""
    mask: Tensor
    """1 for tokens, 0 for padding; ``(batch, tokens)``."""

    @property
    def layer_count(self) -> int:
        """Number of transformer layers l, the embedding output not counted."""
        return len(self.hidden) - 1

    def layer(self, number: int) -> Tensor:
        """States of one layer, ``(batch, tokens, dim)``."""
        if not 0 <= number <= self.layer_count:
            raise InputError(f"layer {number} was asked for; this encoder has layers 0 to {self.layer_count}")
        return self.hidden[number]
