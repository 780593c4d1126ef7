"""The guide: the frozen copy of the encoder, whose pooled layers are the views."""

import copy
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from selfguide.devices import sent
from selfguide.encoders.encoder import Encoder, TokenIds, padded_batches, run_states
from selfguide.encoders.states import EncoderStates
from selfguide.errors import InputError
from selfguide.pooling import POOLINGS


@final
class Guide:
    """A copy of the encoder, made before training, that gives views and never gets a gradient.

    With ``dropout`` its views differ from call to call (the released code's way); without, they are a fixed function of
    the sentence.
    """

    def __init__(self, encoder: Encoder, *, layers: Sequence[int], pooling: str, dropout: bool = False) -> None:
        self.encoder = encoder
        self.model = copy.deepcopy(encoder.model).requires_grad_(False).train(dropout)
        self.layers = tuple(layers)
        self.pooling = pooling
        self.has_dropout = dropout

    @torch.no_grad()
    def views(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Views of a batch ``(batch, tokens)``: ``(batch, layers, dim)`` in float32."""
        return pooled_layers(run_states(self.model, ids, mask), self.layers, self.pooling).float()

    def views_of_rows(self, rows: TokenIds, *, tokens_per_batch: int = 8192) -> Tensor:
        """Views of many tokenised sentences in large batches of like length, on the guide's device."""
        device = next(self.model.parameters()).device
        views = torch.empty(len(rows), len(self.layers), self.encoder.dim, device=device)
        for batch in padded_batches(self.encoder, rows, device, tokens_per_batch):
            views[sent(batch.positions, device)] = self.views(batch.ids, batch.mask)
        return views


def pooled_layers(states: EncoderStates, layers: Sequence[int], pooling: str) -> Tensor:
    """Pooled states of the chosen layers, ``(batch, layers, dim)``."""
    pool = POOLINGS[pooling]
    return torch.stack([pool(states.layer(number), states.mask) for number in layers], dim=1)


def parse_layers(text: str, layer_count: int) -> tuple[int, ...]:
    """Layer numbers of a choice such as ``all``, ``0-12``, ``4-`` or ``0,1,12``; 0 is the embedding output.

    Raises:
        InputError: when the text is not of that form or names a layer that the encoder does not have.
    """
    problem = InputError(
        f"layers '{text}' is not understood; this encoder has layers 0 to {layer_count}: "
        f"give 'all', a range such as '4-{layer_count}' or '4-', or a list such as '0,1,{layer_count}'"
    )
    if text == "all":
        return tuple(range(layer_count + 1))
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            numbers += range(int(first), int(last or layer_count) + 1) if dash else [int(first)]
    except ValueError:
        raise problem from None
    if not numbers or len(set(numbers)) != len(numbers) or min(numbers) < 0 or max(numbers) > layer_count:
        raise problem
    return tuple(numbers)
