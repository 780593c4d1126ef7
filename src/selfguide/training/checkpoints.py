"""Checkpoints: written whole or not at all, checked before they are read."""

import pickle
import shutil
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, final

from safetensors.torch import load_file, save_file
from torch import Tensor

from selfguide.errors import InputError
from selfguide.files import atomic_folder, read_json, sha256_of_file, write_json
from selfguide.training.processes import from_main

_MANIFEST = "manifest.json"
_BEST = "best.safetensors"
_KEPT = 2


@final
class Checkpoints:
    """The checkpoints of one run in its folder, the newest two kept."""

    def __init__(self, folder: Path, *, every_steps: int, every_minutes: float) -> None:
        self.folder = folder
        self.every_steps, self.every_seconds = every_steps, 60 * every_minutes
        self._last = time.monotonic()

    def are_due(self, step: int) -> bool:
        """Whether one should be written after this step."""
        by_step = self.every_steps > 0 and step % self.every_steps == 0
        return by_step or (self.every_seconds > 0 and time.monotonic() - self._last >= self.every_seconds)

    def save(self, accelerator: Any, step: int, best: dict[str, Tensor] | None) -> None:  # noqa: ANN401 - accelerate is untyped
        """Write what ``accelerator`` holds (model, optimiser, registered state, generators) and the best weights so far."""
        target = self.folder / f"step-{step:08d}"
        # every process writes its generators into the folder of the main one, which does the rest
        with atomic_folder(target) if accelerator.is_main_process else nullcontext() as own:
            accelerator.save_state(str(from_main(accelerator, own)))
            accelerator.wait_for_everyone()
            if own is not None:
                _seal(own, step, best)
        if accelerator.is_main_process:
            for old in self.all()[:-_KEPT]:
                shutil.rmtree(old)
        accelerator.wait_for_everyone()
        self._last = time.monotonic()

    def load(self, accelerator: Any) -> dict[str, Tensor] | None:  # noqa: ANN401 - accelerate is untyped
        """Bring ``accelerator`` to the state of the newest checkpoint; gives the best weights so far.

        Raises:
            InputError: when there is none, or it is damaged.
        """
        found = self.all()
        if not found:
            raise InputError(f"there is no checkpoint in '{self.folder}' to resume from; leave out --resume to start anew")
        newest = found[-1]
        self._check(newest, others=len(found) > 1)
        try:
            accelerator.load_state(str(newest))
        except (RuntimeError, pickle.UnpicklingError, KeyError, ValueError) as error:
            raise InputError(
                f"the checkpoint '{newest}' does not fit this run: {' '.join(str(error).split())[:300]}"
            ) from error
        return load_file(newest / _BEST) if (newest / _BEST).exists() else None

    def all(self) -> list[Path]:
        """Folders of the checkpoints, oldest first."""
        return sorted(self.folder.glob("step-*"))

    def _check(self, folder: Path, *, others: bool) -> None:
        advice = "delete that folder to go on from the one before" if others else "use --overwrite to start anew"
        try:
            sums = read_json(folder / _MANIFEST)["sha256"].items()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the checkpoint '{folder}' is damaged (no readable {_MANIFEST}); {advice}") from error
        for name, expected in sums:
            if not (folder / name).is_file() or sha256_of_file(folder / name) != expected:
                raise InputError(f"the checkpoint '{folder}' is damaged ({name} is not as it was written); {advice}")


def _seal(folder: Path, step: int, best: dict[str, Tensor] | None) -> None:
    """Add the best weights, and a list of all files with their hashes."""
    if best is not None:
        save_file({name: tensor.contiguous() for name, tensor in best.items()}, folder / _BEST)
    sums = {str(path.relative_to(folder)): sha256_of_file(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    write_json(folder / _MANIFEST, {"step": step, "sha256": sums})
