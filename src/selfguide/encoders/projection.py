"""The projection head f: shared by anchors and views while training, thrown away afterwards."""

import torch
from torch import nn

from selfguide.errors import InputError

PROJECTIONS = ("mlp", "tanh", "none")


def make_projection(kind: str, *, dim: int, width: int, std: float, generator: torch.Generator) -> nn.Module:
    """Build a head: ``mlp`` (the paper's two layers of ``width``, GELU after each), ``tanh`` (SimCSE's), or ``none``.

    Weights are N(0, std), biases 0.

    Raises:
        InputError: for another kind.
    """
    if kind not in PROJECTIONS:
        raise InputError(f"projection '{kind}' is not known; choose one of: {', '.join(PROJECTIONS)}")
    if kind == "none":
        return nn.Identity()
    layers = [nn.Linear(dim, dim)] if kind == "tanh" else [nn.Linear(dim, width), nn.Linear(width, width)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=std, generator=generator)
        nn.init.zeros_(layer.bias)
    activation = nn.Tanh if kind == "tanh" else nn.GELU
    return nn.Sequential(*(module for layer in layers for module in (layer, activation())))
