"""What a number was measured on: versions and hardware, for the record beside every result."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PACKAGES = (
    "selfguide",
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
    "accelerate",
    "datasets",
    "numpy",
    "scipy",
)


def describe_environment(device: str) -> dict[str, Any]:
    """Versions, machine and device."""
    import torch

    found: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "device": device,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "command": sys.argv,
    }
    if device.startswith("cuda"):
        found["device_name"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
