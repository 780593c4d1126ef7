"""The regulariser of the paper: how far the encoder's parameters have moved from the guide's."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from selfguide.errors import InputError


def distance(parameters: Sequence[Tensor], references: Sequence[Tensor]) -> Tensor:
    """Squared L2 distance between two lists of tensors, summed over all of them; ``references`` get no gradient."""
    shapes = [[tuple(tensor.shape) for tensor in tensors] for tensors in (parameters, references)]
    if not parameters or shapes[0] != shapes[1]:
        raise InputError(
            f"the distance takes two lists of tensors of the same shapes; {len(parameters)} and {len(references)} "
            "tensors were given, empty or of other shapes"
        )
    return _SquaredDistance.apply(list(references), *parameters)  # type: ignore[no-any-return, no-untyped-call]


def squared_norm(tensors: tuple[Tensor, ...]) -> Tensor:
    """Sum of the squares of all numbers."""
    return torch.stack(torch._foreach_norm(tensors)).square().sum()


class _SquaredDistance(torch.autograd.Function):
    """All tensors in a few multi-tensor calls, and the differences not kept for the backward pass but made again."""

    @staticmethod
    def forward(ctx: Any, references: list[Tensor], *parameters: Tensor) -> Tensor:  # noqa: ANN401
        ctx.references = references
        ctx.save_for_backward(*parameters)
        return squared_norm(torch._foreach_sub(parameters, references))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ANN401
        differences = torch._foreach_sub(ctx.saved_tensors, ctx.references)
        torch._foreach_mul_(differences, 2 * gradient)
        return None, *differences
