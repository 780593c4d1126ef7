"""DeBERTa's buckets of distances as a table."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel


@contextmanager
def looked_up_positions(model: PreTrainedModel) -> Iterator[None]:
    """Let a DeBERTa take the buckets of its distances from a table meanwhile; other models stay as they are.

    A bucket is the ceiling of a logarithm, and where that is a whole number, as at the largest distance, its last digit
    decides. Runtimes differ there: OpenVINO came to another bucket than PyTorch.
    """
    encoder: Any = getattr(model, "encoder", None)
    if model.config.model_type != "deberta-v2" or not encoder.relative_attention:
        yield
        return
    longest = int(model.config.max_position_embeddings)
    table = _table(encoder.get_rel_pos(torch.zeros(1, longest, 1))[0])

    def get_rel_pos(hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:  # noqa: ANN401 - what reads and is read are one
        places = torch.arange(hidden_states.shape[-2])
        return table[places[:, None] - places + longest - 1].unsqueeze(0)

    encoder.get_rel_pos = get_rel_pos
    try:
        yield
    finally:
        del encoder.get_rel_pos


def _table(buckets: Tensor) -> Tensor:
    """Buckets ``(longest, longest)`` by place and place -> ``(2 longest - 1,)`` by distance, the lowest first."""
    return torch.cat([buckets[0].flip(0), buckets[1:, 0]])
