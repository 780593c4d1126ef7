"""Pooling of token states over a sentence: pure tensor functions, padding never counted."""

from collections.abc import Callable

import torch
from torch import Tensor


def cls_pool(states: Tensor, mask: Tensor) -> Tensor:
    """The state of the first token: ``(batch, tokens, dim) -> (batch, dim)``."""
    return states[:, 0]


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """Mean over all tokens that are not padding, special tokens included: ``(batch, tokens, dim) -> (batch, dim)``."""
    # summed in float32 at least: half precision overflows, and cannot count past 256 (bfloat16)
    wide = torch.promote_types(states.dtype, torch.float32)
    kept = states.masked_fill(~mask.bool().unsqueeze(-1), 0)
    return (kept.sum(dim=1, dtype=wide) / mask.sum(dim=1, keepdim=True, dtype=wide)).to(states.dtype)


def max_pool(states: Tensor, mask: Tensor) -> Tensor:
    """Largest value of each dimension over all tokens that are not padding: ``(batch, tokens, dim) -> (batch, dim)``."""
    lowest = torch.finfo(states.dtype).min
    return states.masked_fill(~mask.bool().unsqueeze(-1), lowest).amax(dim=1)


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"cls": cls_pool, "mean": mean_pool, "max": max_pool}
"""Pooling functions by name; each takes states ``(batch, tokens, dim)`` and a 0/1 mask ``(batch, tokens)``."""
