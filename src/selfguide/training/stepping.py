"""One optimiser step: run plainly, or on CUDA as one captured graph that the host only has to start."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, final

import torch
from torch import Tensor, nn

from selfguide.guidance import StepInputs

WARM_UP_STEPS = 3
"""Plain steps before the first capture: the optimiser's state and the libraries' workspaces must exist by then."""


@final
class PlainStep:
    """Forward, backward, clip and update, one call after the other; gradients of several batches are added up."""

    def __init__(
        self,
        accelerator: Any,  # noqa: ANN401 - accelerate is untyped
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        clip: float,
        forward: Callable[..., Tensor] | None = None,
        add_gradient: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep the parts; ``forward`` runs the module another way, ``add_gradient`` is called after the backward pass."""
        self.accelerator, self.module, self.optimizer, self.clip = accelerator, module, optimizer, clip
        self.forward = forward or module
        self.add_gradient = add_gradient
        self.trained = [p for p in module.parameters() if p.requires_grad]

    def __call__(self, batches: Sequence[StepInputs]) -> Tensor:
        """Take one step; gives the mean of the batches' monitors."""
        total: Tensor | None = None
        for number, batch in enumerate(batches):
            is_last = number == len(batches) - 1
            with nullcontext() if is_last else self.accelerator.no_sync(self.module):
                monitors = self.forward(batch.ids, batch.mask, batch.views, batch.same) / len(batches)
                self.accelerator.backward(monitors[0])
            total = monitors.detach() if total is None else total + monitors.detach()
        self.add_gradient()
        if self.clip:
            self.accelerator.clip_grad_norm_(self.trained, self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        assert total is not None, "a step needs at least one batch"
        return total


@final
class CapturedStep:
    """Replays the whole step as a CUDA graph, one for each padded width; odd batches take the plain step.

    The arithmetic is that of :class:`PlainStep`; what is saved is the host's time for some thousand kernel launches.
    """

    def __init__(self, plain: PlainStep, *, batch_size: int) -> None:
        self.plain, self.batch_size = plain, batch_size
        self._graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, StepInputs, Tensor]] = {}
        self._pool: Any = None
        self._stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._plain_steps = 0

    def __call__(self, batches: Sequence[StepInputs]) -> Tensor:
        """Take one step; gives the monitors of the batch."""
        (batch,) = batches
        key = tuple(batch.ids.shape)
        if key[0] != self.batch_size or self._plain_steps < WARM_UP_STEPS:
            return self._plain(batches)
        if key not in self._graphs:
            self._graphs[key] = self._capture(batch)
        graph, static, monitors = self._graphs[key]
        for target, source in _tensor_pairs(static, batch):
            target.copy_(source, non_blocking=True)
        graph.replay()
        return monitors.clone()

    def _plain(self, batches: Sequence[StepInputs]) -> Tensor:
        """A plain step on a side stream, as a capture must be warmed up on one."""
        self._plain_steps += 1
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            monitors = self.plain(batches)
        torch.cuda.current_stream().wait_stream(self._stream)
        return monitors

    def _capture(self, batch: StepInputs) -> tuple[torch.cuda.CUDAGraph, StepInputs, Tensor]:
        copies: dict[str, Any] = {name: None if value is None else value.clone() for name, value in vars(batch).items()}
        static = StepInputs(**copies)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            monitors = self.plain([static])
        self._pool = self._pool or graph.pool()
        return graph, static, monitors


def captured_width(longest: int) -> int:
    """Width to pad to, so that a few graphs serve all batches: multiples of 8 up to 64 tokens, of 32 beyond."""
    unit = 8 if longest <= 64 else 32
    return -(-longest // unit) * unit


def _tensor_pairs(static: StepInputs, batch: StepInputs) -> list[tuple[Tensor, Tensor]]:
    return [(getattr(static, name), value) for name, value in vars(batch).items() if value is not None]
