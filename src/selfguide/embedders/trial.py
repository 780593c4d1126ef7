"""Whether this CPU can compute in half precision, tried in a process of its own.

The kernels for bf16 and fp16 can end a process with an illegal instruction, on processors that say they have what is needed.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

from selfguide.data.word_vectors import CACHE_VARIABLE
from selfguide.files import read_json, write_json

SECONDS = 120

_SCRIPT = """
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


def cpu_computes(precision: str) -> bool:
    """Whether the CPU can; the answer is kept in the cache folder, by machine and version of torch."""
    from torch.version import __version__ as torch_version

    record = _record()
    key = f"{platform.node()} {platform.machine()} torch {torch_version} {precision}"
    try:
        known = read_json(record)
    except (OSError, ValueError):
        known = {}
    if not isinstance(known, dict):
        known = {}
    if key not in known:
        known[key] = _try(precision)
        _keep(record, known)
    return bool(known[key])


def _try(precision: str) -> bool:
    try:
        done = subprocess.run([sys.executable, "-c", _SCRIPT, precision], capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _record() -> Path:
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/selfguide").expanduser() / "precision.json"


def _keep(record: Path, known: dict[str, bool]) -> None:
    """Write the answers; where that cannot be done they are asked for again the next time."""
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, known)
    except OSError:
        pass
