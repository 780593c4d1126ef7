"""DeBERTa's buckets of distances as a table."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel


@contextmanager
def looked_up_positions(model: PreTrainedModel, max_length: int) -> Iterator[None]:
    """Let a DeBERTa take the buckets of its distances from a table meanwhile; other models stay as they are.

    A bucket is the ceiling of a logarithm, and where that is a whole number, as at the largest distance, its last digit
    decides. Runtimes differ there: OpenVINO came to another bucket than PyTorch.
    """
    if model.config.model_type != "deberta-v2":
        yield
        return
    encoder: Any = model.encoder
    table = _table(encoder.get_rel_pos(torch.zeros(1, max_length, 1))[0])

    def get_rel_pos(hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:  # noqa: ANN401 - always of the same length here
        places = torch.arange(hidden_states.shape[-2])
        return table[places[:, None] - places + max_length - 1].unsqueeze(0)

    encoder.get_rel_pos = get_rel_pos
    try:
        yield
    finally:
        del encoder.get_rel_pos


def _table(buckets: Tensor) -> Tensor:
    """Buckets ``(max_length, max_length)`` by place and place -> ``(2 max_length - 1,)`` by distance, the lowest first."""
    return torch.cat([buckets[0].flip(0), buckets[1:, 0]])
