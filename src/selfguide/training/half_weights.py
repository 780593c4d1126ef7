"""The weights of a module in half precision, made by one kernel a step; autocast alone takes one for every weight."""

from typing import Any, final

import torch
from torch import Tensor, nn
from torch.func import functional_call


@final
class HalfWeights:
    """Calls a module with its linear layers in half precision; gradients arrive at its own parameters.

    Call it under autocast, which by itself casts each weight and each gradient by a kernel of its own. Results and gradients
    are the same; but a weight that is used several times in a pass, as ALBERT's are, has its gradients added up in half
    precision, as with autocast's own cache.
    """

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        self.module, self.dtype = module, dtype
        layers = (layer for layer in module.modules() if isinstance(layer, nn.Linear))
        cast = {id(parameter) for layer in layers for parameter in layer.parameters(recurse=False)}
        named = module.named_parameters()
        self.weights = {name: weight for name, weight in named if weight.requires_grad and id(weight) in cast}

    def __call__(self, *inputs: Tensor | None) -> Tensor:
        """What the module gives for the inputs."""
        copies = _Cast.apply(self.dtype, *self.weights.values())  # type: ignore[no-untyped-call]
        result: Tensor = functional_call(self.module, dict(zip(self.weights, copies, strict=True)), inputs)
        return result


class _Cast(torch.autograd.Function):
    """Tensors in another type, all by one kernel; their gradients back, by another."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's own
        ctx.set_materialize_grads(False)  # a weight that is not used has no gradient, not one of zeros
        return _all_as(dtype, tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own
        found = iter(_all_as(torch.float32, tuple(g for g in gradients if g is not None)))
        return (None, *(None if g is None else next(found) for g in gradients))


def _all_as(dtype: torch.dtype, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    copies = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    if tensors:
        torch._foreach_copy_(copies, tensors)
    return copies
