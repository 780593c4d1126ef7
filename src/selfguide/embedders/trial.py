"""Whether this CPU can compute in a low precision, tried in a process of its own.

The kernels for bf16, fp16 and int8 can end a process with an illegal instruction, on processors that say they have what is
needed.
"""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from selfguide.data.word_vectors import CACHE_VARIABLE
from selfguide.errors import InputError
from selfguide.files import read_json, write_json

SECONDS = 120
ISA_VARIABLE, SAFE_ISA = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"
"""The variable that keeps oneDNN, inside torch and OpenVINO, from instructions that some machines only announce."""

_HALF = """
import sys, torch
dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[sys.argv[1]]
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).eval()
for rows, tokens in ((1, 1), (1, 17), (16, 64)):
    states = torch.randn(rows, tokens, 256)
    with torch.no_grad():
        exact = layer(states)
        with torch.autocast("cpu", dtype=dtype):
            found = layer(states)
        lowered = torch.nn.Linear(256, 1024).to(dtype)(states.to(dtype))
    assert torch.isfinite(lowered).all() and (found.float() - exact).abs().max() < 0.1
"""
_INT8 = "from selfguide.embedders.openvino_graph import try_int8; try_int8()"
_BREAKDOWNS = (-4, -7, -8, -11)
"""Exit codes that will come again: signals of the processor (illegal instruction, bus, arithmetic, segmentation)."""
_TRIALS = {"bf16": ("torch", _HALF), "fp16": ("torch", _HALF), "int8": ("openvino", _INT8)}
"""The package whose kernels are tried, and the program that tries them."""


def check_cpu_computes(precision: str, asked_by: str) -> None:
    """Refuse a precision that this CPU breaks down on.

    Raises:
        InputError: when it did, with a way out.
    """
    if not cpu_computes(precision):
        raise InputError(
            f"{asked_by} was asked for, but this CPU broke down when {precision} was tried; use float32, or set the "
            f"environment variable {ISA_VARIABLE}={SAFE_ISA} and try again"
        )


def cpu_computes(precision: str) -> bool:
    """Whether the CPU can; the answer is kept in the cache folder, by machine, version and allowed instructions."""
    record = _record()
    package, _ = _TRIALS[precision]
    words = [platform.node(), platform.machine(), package, _version(package), os.environ.get(ISA_VARIABLE, ""), precision]
    key = " ".join(word for word in words if word)
    try:
        known = read_json(record)
    except (OSError, ValueError):
        known = {}
    if not isinstance(known, dict):
        known = {}
    if key in known:
        return bool(known[key])
    code = _try(precision)
    if code == 0 or code in _BREAKDOWNS:  # anything else, as too little memory, may be another time
        _keep(record, {**known, key: code == 0})
    return code == 0


def _try(precision: str) -> int | None:
    """The exit code of a process that computes so; None when it came to no end."""
    _, script = _TRIALS[precision]
    try:
        done = subprocess.run([sys.executable, "-c", script, precision], capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _record() -> Path:
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/selfguide").expanduser() / "precision.json"


def _keep(record: Path, known: dict[str, bool]) -> None:
    """Write the answers; where that cannot be done they are asked for again the next time."""
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, known)
    except OSError:
        pass
