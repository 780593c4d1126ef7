"""A flow on vectors after Glow (Kingma and Dhariwal, 2018): an invertible map whose density is known. No encoder here."""

import math
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from selfguide.errors import InputError

LOG_SCALE_FACTOR = 3.0
"""A scale is exp(3 s) of its parameter s, which lets it move three times as fast at the same learning rate."""


class Affine(nn.Module):
    """``y = (x + bias) * exp(3 log_scale)`` for each channel; the identity at first."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Shift and scale ``(batch, dim)``."""
        return (x + self.bias) * torch.exp(LOG_SCALE_FACTOR * self.log_scale)

    def inverse(self, y: Tensor) -> Tensor:
        """The x of a y."""
        return y * torch.exp(-LOG_SCALE_FACTOR * self.log_scale) - self.bias


@final
class ActNorm(Affine):
    """An affine map that begins with zero mean and unit variance of every channel on some first inputs."""

    @torch.no_grad()
    def standardize(self, x: Tensor) -> None:
        """Set the parameters by inputs ``(batch, dim)``."""
        self.bias.copy_(-x.mean(dim=0))
        # a channel that does not vary is scaled by a million, not by infinity
        self.log_scale.copy_(-torch.log(x.std(dim=0, correction=0) + 1e-6) / LOG_SCALE_FACTOR)


@final
class Shift(nn.Module):
    """The net of a coupling: three layers with ReLU between, ``(batch, dim)`` to ``(batch, dim)``; gives zeros at first."""

    def __init__(self, dim: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first, self.first_norm = _random_weight(width, dim, generator), ActNorm(width)
        self.second, self.second_norm = _random_weight(width, width, generator), ActNorm(width)
        # no ActNorm: there is nothing to standardize in zeros
        self.last, self.last_scale = nn.Parameter(torch.zeros(dim, width)), Affine(dim)

    def forward(self, x: Tensor) -> Tensor:
        """What is to be added to the other half of the channels."""
        hidden = torch.relu(self.first_norm(functional.linear(x, self.first)))
        hidden = torch.relu(self.second_norm(functional.linear(hidden, self.second)))
        shift: Tensor = self.last_scale(functional.linear(hidden, self.last))
        return shift


def _random_weight(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    return nn.Parameter(0.05 * torch.randn(rows, columns, generator=generator))


@final
class Step(nn.Module):
    """ActNorm, reversal of the channels, and a shift of their second half by a net of the first."""

    def __init__(self, dim: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.norm = ActNorm(dim)
        self.shift = Shift(dim // 2, width, generator)

    def forward(self, x: Tensor) -> Tensor:
        """One step on ``(batch, dim)``."""
        kept, moved = self.norm(x).flip(-1).chunk(2, dim=-1)
        return torch.cat([kept, moved + self.shift(kept)], dim=-1)

    def inverse(self, y: Tensor) -> Tensor:
        """The x of a y."""
        kept, moved = y.chunk(2, dim=-1)
        return self.norm.inverse(torch.cat([kept, moved - self.shift(kept)], dim=-1).flip(-1))


@final
class Glow(nn.Module):
    """Levels of steps; after each level but the last, the second half of the channels is done and leaves.

    Everything that leaves is standard normal under the model, so that the density of x is that of z under N(0, I), times
    the determinant. A shift does not change volumes: the determinant is that of the norms, the same for every x.
    """

    def __init__(self, dim: int, *, levels: int, depth: int, width: int, generator: torch.Generator) -> None:
        """Draw the weights of a flow that is not initialized yet.

        Args:
            dim: Size of a vector.
            levels: Number of levels; each halves the channels of the one before.
            depth: Steps in a level.
            width: Hidden units of the nets.
            generator: On the CPU; draws the weights of the nets.

        Raises:
            InputError: when the channels cannot be halved that often.
        """
        super().__init__()
        if dim % 2**levels:
            raise InputError(
                f"a flow of {levels} levels halves the channels {levels} times, but vectors of {dim} are not divisible by "
                f"{2**levels}; take fewer levels"
            )
        sizes = [dim // 2**level for level in range(levels)]
        self.parts = [*sizes[1:], sizes[-1]]
        """Channels that leave after each level, the last one included."""
        self.levels = [[Step(size, width, generator) for _ in range(depth)] for size in sizes]
        self.steps = nn.ModuleList(step for level in self.levels for step in level)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """To the latent space.

        Args:
            x: Vectors ``(batch, dim)``.

        Returns:
            z of the same shape, what left first in front; and the logarithm of the Jacobian's determinant, ``(batch,)``.
        """
        left: list[Tensor] = []
        for number, level in enumerate(self.levels):
            if number:
                x, leaving = x.chunk(2, dim=-1)
                left.append(leaving)
            for step in level:
                x = step(x)
        log_scales = torch.cat([step.norm.log_scale for level in self.levels for step in level])
        return torch.cat([*left, x], dim=-1), (LOG_SCALE_FACTOR * log_scales.sum()).expand(len(x))

    def inverse(self, z: Tensor) -> Tensor:
        """The x of a z, ``(batch, dim)``."""
        *left, x = torch.split(z, self.parts, dim=-1)
        for level in reversed(self.levels):
            for step in reversed(level):
                x = step.inverse(x)
            if left:
                x = torch.cat([x, left.pop()], dim=-1)
        return x

    def log_probability(self, x: Tensor) -> Tensor:
        """Logarithm of the density at x, ``(batch,)``."""
        z, log_determinant = self(x)
        log_density: Tensor = log_determinant - 0.5 * (z.square().sum(dim=-1) + z.shape[-1] * math.log(2 * math.pi))
        return log_density

    def bits_per_dimension(self, x: Tensor) -> Tensor:
        """Mean of the negative log density to base 2, divided by the size of a vector: a scalar."""
        return -self.log_probability(x).mean() / (x.shape[-1] * math.log(2))

    @torch.no_grad()
    def initialize(self, x: Tensor) -> None:
        """Let every ActNorm begin with zero mean and unit variance on vectors ``(batch, dim)``."""

        def standardize(norm: ActNorm, inputs: tuple[Tensor]) -> None:
            norm.standardize(*inputs)

        norms = [module for module in self.modules() if isinstance(module, ActNorm)]
        hooks = [norm.register_forward_pre_hook(standardize) for norm in norms]  # each before its first use
        self(x)
        for hook in hooks:
            hook.remove()
