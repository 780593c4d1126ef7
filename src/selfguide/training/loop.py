"""The training loop: step, log, score, checkpoint."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from selfguide.errors import SelfguideError
from selfguide.files import write_text
from selfguide.guidance import MONITORS, StepInputs
from selfguide.training.checkpoints import Checkpoints
from selfguide.training.interruption import deferred_interruption
from selfguide.training.processes import from_main
from selfguide.training.progress import Progress
from selfguide.training.schedule import learning_rate, set_learning_rate
from selfguide.training.selection import Selection

_FLUSH_EVERY = 25
"""Steps whose monitors stay on the device before the host waits for them."""


@final
@dataclass
class RunState:
    """What a run is made of beside weights and optimiser; goes into every checkpoint."""

    selection: Selection
    layer_generator: torch.Generator
    step: int = 0

    def state_dict(self) -> dict[str, Any]:
        """For accelerate."""
        return {"step": self.step, "selection": vars(self.selection), "layers": self.layer_generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """For accelerate."""
        self.step = state["step"]
        self.selection = Selection(**state["selection"])
        self.layer_generator.set_state(state["layers"])


@final
@dataclass
class MetricsLog:
    """One JSON line a step and a score; lines of steps after the newest checkpoint are taken back on resume."""

    path: Path
    waiting: list[tuple[int, Tensor]] = field(default_factory=list)

    def rewind(self, step: int) -> None:
        """Drop what was written after ``step``."""
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        kept = [line for line in lines if _step_of(line) <= step]
        write_text(self.path, "".join(line + "\n" for line in kept))

    def add(self, step: int, monitors: Tensor) -> None:
        """Keep the monitors of a step until the next flush."""
        self.waiting.append((step, monitors))

    def flush(self) -> list[dict[str, float]]:
        """Write the waiting steps; gives them as rows."""
        if not self.waiting:
            return []
        values = torch.stack([monitors for _, monitors in self.waiting]).tolist()
        rows = [
            {"step": step, **dict(zip(MONITORS, row, strict=True))}
            for (step, _), row in zip(self.waiting, values, strict=True)
        ]
        self.write(*rows)
        self.waiting.clear()
        return rows

    def write(self, *rows: dict[str, float]) -> None:
        """Append rows."""
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


@final
@dataclass
class Loop:
    """A run that is ready to go: its parts, and what to call when."""

    accelerator: Any
    encoder: nn.Module
    optimizer: torch.optim.Optimizer
    take_step: Callable[[list[StepInputs]], Tensor]
    make_batch: Callable[[int, int], StepInputs]
    state: RunState
    steps: int
    accumulation: int
    rate: dict[str, float]
    """Peak and warm-up of the learning rate."""
    score: Callable[[], float] | None
    score_every: int
    checkpoints: Checkpoints
    metrics: MetricsLog
    progress: Progress
    best: dict[str, Tensor] | None = None
    _sentences: int = 0

    def run(self) -> None:
        """Train to the last step, or until the dev score has stood too long; leaves the best weights in the encoder.

        Raises:
            KeyboardInterrupt: after the user's Ctrl-C, once a checkpoint is written.
        """
        self.encoder.train()
        self.progress.start(self.state.step, self.steps)
        try:
            with deferred_interruption() as interruption:
                while self.state.step < self.steps and not self.state.selection.is_over:
                    self._one_step()
                    if from_main(self.accelerator, interruption.asked):
                        self._checkpoint()
                        raise KeyboardInterrupt(f"interrupted after step {self.state.step}; --resume goes on from there")
        finally:
            self.progress.stop()
        if self.best is not None:
            self.encoder.load_state_dict(self.best)

    def _one_step(self) -> None:
        step = self.state.step
        set_learning_rate(self.optimizer, learning_rate(step, steps=self.steps, **self.rate))
        batches = [self.make_batch(step, part) for part in range(self.accumulation)]
        self.metrics.add(step + 1, self.take_step(batches))
        self._sentences += sum(_sentences_in(batch) for batch in batches)
        self.state.step = step + 1
        is_last = self.state.step == self.steps
        is_scored = self.score is not None and (self.state.step % self.score_every == 0 or is_last)
        if is_scored or is_last or len(self.metrics.waiting) >= self._flush_every():
            self._log()
        if is_scored:
            self._score()
        if from_main(self.accelerator, self.checkpoints.are_due(self.state.step)) and not is_last:
            self._checkpoint()

    def _flush_every(self) -> int:
        return _FLUSH_EVERY if self.accelerator.device.type == "cuda" else 1

    def _log(self) -> None:
        for row in self.metrics.flush():
            if not math.isfinite(row["loss"]):
                raise SelfguideError(
                    f"the loss is {row['loss']} at step {int(row['step'])}, so training has failed; "
                    "use a lower --learning-rate or a higher --temperature"
                )
            self.accelerator.log({name: value for name, value in row.items() if name != "step"}, step=int(row["step"]))
            self.progress.update(int(row["step"]), row["loss"], self._sentences)

    def _score(self) -> None:
        assert self.score is not None
        step, value = self.state.step, self.score()
        is_best = self.state.selection.add(step, value)
        if is_best:
            self.best = {name: tensor.detach().clone() for name, tensor in self.encoder.state_dict().items()}
        self.metrics.write({"step": step, "dev": value})
        self.accelerator.log({"dev": value}, step=step)
        self.progress.scored(step, value, is_best=is_best)

    def _checkpoint(self) -> None:
        self._log()
        self.checkpoints.save(self.accelerator, self.state.step, self.best)


def _sentences_in(batch: StepInputs) -> int:
    """Sentences of a batch; without views of a guide the objective reads each of them twice."""
    return len(batch.ids) // 2 if batch.views is None else len(batch.views)


def _step_of(line: str) -> float:
    """Step of a line; a line that was cut off by a crash counts as after every step."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
