"""Where a model runs: the device of a name, how much goes through it at once, and the speed of its products."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from selfguide.errors import InputError

TOKENS_PER_BATCH = {"cpu": 4096, "cuda": 65536, "mps": 16384}
"""Tokens that go through an encoder at once where no gradient is needed."""


def choose_device(name: str) -> torch.device:
    """The device of a name.

    Raises:
        InputError: when the name is not known, or the machine has no such device.
    """
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(candidate for candidate in ("cuda", "mps", "cpu") if available[candidate])
    if name not in available:
        raise InputError(f"device '{name}' is not known; choose one of: auto, {', '.join(available)}")
    if not available[name]:
        present = ", ".join(device for device, is_there in available.items() if is_there)
        raise InputError(f"--device {name} was asked for, but this machine has only: {present}; use --device auto")
    return torch.device(name)


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the CPU on a device, without waiting for either: a GPU reads it from memory that stays in place."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def product_precision(device: torch.device) -> str:
    """Precision of float32 products under :func:`fast_products`."""
    return "tf32" if device.type == "cuda" else "float32"


@contextmanager
def fast_products(device: torch.device) -> Iterator[None]:
    """On CUDA, multiply float32 matrices in TF32 meanwhile: faster by far, and scores keep their second decimal.

    Nor is cuDNN's attention used, which in half precision makes a plan for every new shape, a fraction of a second each.
    """
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    plans_before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cuda.enable_cudnn_sdp(plans_before)
