"""What a number was measured on: versions, commit and hardware, for the record beside every result."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
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
    """Versions, commit, machine and device."""
    import torch

    found: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": package_versions(),
        "commit": current_commit(),
        "device": device,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],  # the folder may tell who was at work, and goes to the hub
    }
    if device.startswith("cuda"):
        found["device_name"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
    return found


def current_commit() -> str | None:
    """The commit of the source that runs, where it lies in its repository; ``SELFGUIDE_COMMIT`` for a copy outside of it."""
    if "SELFGUIDE_COMMIT" in os.environ:
        return os.environ["SELFGUIDE_COMMIT"]
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():  # installed, perhaps inside somebody else's repository, whose commit says nothing
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def package_versions() -> dict[str, str | None]:
    """Versions of the packages that a number depends on; None for one that is not installed."""
    return {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
