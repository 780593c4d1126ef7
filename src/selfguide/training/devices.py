"""Device and precision of a run, and accelerate set up for them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfguide.errors import InputError, MissingExtraError
from selfguide.training.config import TrainingConfig


def choose_precision(name: str, device: torch.device) -> str:
    """The precision of a name on a device.

    Raises:
        InputError: when the device does not offer it.
    """
    if device.type == "cuda":
        return ("bf16" if torch.cuda.is_bf16_supported() else "tf32") if name == "auto" else name
    if name not in ("auto", "float32"):
        raise InputError(f"--precision {name} is for CUDA devices; on {device.type} use float32 or auto")
    return "float32"


@contextmanager
def accelerated(config: TrainingConfig, device: torch.device, precision: str, log_folder: Path) -> Iterator[Any]:
    """An accelerator for the run; what it changes in the process is as before afterwards."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.utils import AutocastKwargs

    matmul_precision = torch.get_float32_matmul_precision()
    cudnn_attention = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    generators = random.getstate(), np.random.get_state()  # accelerate sets them from a checkpoint
    AcceleratorState._reset_state(reset_partial_state=True)  # an earlier run of this process may have had another device
    accelerator = Accelerator(
        cpu=device.type == "cpu",
        mixed_precision=precision if precision in ("bf16", "fp16") else "no",
        log_with=config.tracker,
        project_dir=str(log_folder),
        # a cast that is kept from one step for the next would not be part of a captured graph
        kwargs_handlers=[AutocastKwargs(cache_enabled=False)],
    )
    if device.type == "cuda" and precision != "float32":
        torch.set_float32_matmul_precision("high")
    # cuDNN's attention makes a plan for every new shape, half a second each; the other kernels start at once
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(config.seed + accelerator.process_index)  # or all processes would drop out the same
            yield accelerator
    finally:
        accelerator.end_training()
        random.setstate(generators[0])
        np.random.set_state(generators[1])
        torch.set_float32_matmul_precision(matmul_precision)
        torch.backends.cuda.enable_cudnn_sdp(cudnn_attention)
        AcceleratorState._reset_state(reset_partial_state=True)


def check_tracker(name: str | None) -> None:
    """Refuse a tracker that is not installed, before any work is done."""
    from importlib.util import find_spec

    if name is not None and find_spec(name) is None:
        raise MissingExtraError(f"--tracker {name} needs a package that is not installed: pip install 'selfguide[{name}]'")
