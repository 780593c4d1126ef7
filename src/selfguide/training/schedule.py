"""The learning rate as a function of the step, and the optimiser that it drives."""

import torch
from torch import nn


def learning_rate(step: int, *, steps: int, warmup: float, peak: float) -> float:
    """Learning rate of a step (counted from 0): a linear rise over the share ``warmup`` of all steps, then linearly to 0."""
    rise = int(warmup * steps)
    if step < rise:
        return peak * step / rise
    return peak * max(0.0, (steps - step) / max(1, steps - rise))


def make_optimizer(
    module: nn.Module, *, betas: tuple[float, float], weight_decay: float, device: torch.device
) -> torch.optim.AdamW:
    """AdamW on what is not frozen, in the fused form where there is one; no decay on biases and norms (one-dimensional)."""
    trained = [p for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    on_cuda = device.type == "cuda"
    # a tensor, so that a captured step reads the value of the moment
    rate = torch.zeros((), device=device) if on_cuda else 0.0
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=device.type in ("cpu", "cuda"), capturable=on_cuda)


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    """Set the rate of all groups, in place where it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(value)
        else:
            group["lr"] = value
