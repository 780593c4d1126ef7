"""The most memory that a process has had; imports nothing that would add to it."""

import sys
from pathlib import Path


def peak_mib() -> float:
    """The most memory that this process has had, in MiB."""
    status = Path("/proc/self/status")
    if status.is_file():
        # not ru_maxrss: on Linux a new process begins with that of the one that started it
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 2**10
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
