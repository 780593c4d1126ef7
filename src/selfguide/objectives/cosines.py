"""Scaled cosines and masks that the NT-Xent family shares."""

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

from selfguide.errors import InputError


def scaled_cosines(left: Tensor, right: Tensor, temperature: float) -> Tensor:
    """Cosine of every row of ``left`` with every row of ``right``, over the temperature: ``(m, dim), (n, dim) -> (m, n)``.

    A temperature of 0.01 makes logits of +-100, which half precision cannot hold: it is raised to float32 here, and an
    autocast around the caller does not reach the product.
    """
    with torch.autocast(left.device.type, enabled=False):
        return F.normalize(_at_least_float32(left), dim=-1) @ F.normalize(_at_least_float32(right), dim=-1).T / temperature


def without(logits: Tensor, excluded: Tensor) -> Tensor:
    """Logits with the excluded entries so low that they add exactly nothing to a log-sum-exp.

    Finite rather than -inf, so that a row in which everything is excluded has a loss and a gradient of 0 in every release.
    """
    return logits.masked_fill(excluded, torch.finfo(logits.dtype).min / 4)


def not_negatives(batch: int, mask: Tensor | None, device: torch.device) -> Tensor:
    """Pairs that are not negatives of each other: a sentence with itself, and what ``mask`` marks; ``(batch, batch)``."""
    itself = torch.eye(batch, dtype=torch.bool, device=device)
    return itself if mask is None else itself | mask.bool()


def check_shapes(anchors: Tensor, views: Tensor, mask: Tensor | None, *, view_dims: int) -> None:
    """Refuse inputs that do not fit together; the formulas below would broadcast some of them to nonsense."""
    expected = "(batch, dim)" if view_dims == 2 else "(batch, layers, dim)"
    if anchors.ndim != 2 or views.ndim != view_dims:
        raise InputError(
            f"anchors of shape {tuple(anchors.shape)} and views of shape {tuple(views.shape)} were given; "
            f"this objective takes anchors (batch, dim) and views {expected}"
        )
    if anchors.shape[0] != views.shape[0] or anchors.shape[-1] != views.shape[-1]:
        raise InputError(
            f"anchors {tuple(anchors.shape)} and views {tuple(views.shape)} differ in batch or dim: "
            f"each anchor needs views of its own sentence, projected to the same size"
        )
    if mask is not None and tuple(mask.shape) != (len(anchors), len(anchors)):
        raise InputError(f"mask of shape {tuple(mask.shape)} was given; it must be ({len(anchors)}, {len(anchors)})")


def _at_least_float32(vectors: Tensor) -> Tensor:
    return vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors
