"""Where the time of a training step goes, by torch's profiler, on whatever device there is.

    python benchmarks/profile_step.py --model mini --data DIR --output profile.json

A real run of the preset ``paper`` on the sentences of STS-B (``--data``) or the bundled ones, of which 25 steps are looked
at, on CUDA once all graphs are captured.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from torch.profiler import ProfilerActivity, profile

from selfguide.benchmark.texts import short_texts
from selfguide.benchmark.yardstick import TOKENS
from selfguide.devices import choose_device
from selfguide.environment import describe_environment
from selfguide.files import write_json
from selfguide.training.train import run_training

STEPS = 25
"""On CUDA, losses are read every so many steps, which is when the host waits and ``update`` is called for all of them."""
KINDS = {
    "optimiser, clipping, distance": ("multi_tensor", "adamw", "foreach"),
    "matrix products": ("nvjet", "gemm", "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"),
    "attention": ("fmha", "flash", "attention"),
    "casts and copies": ("copy",),
    "sums of gradients of biases": ("reduce_kernel<128",),
    "random numbers of dropout": ("bernoulli", "dropout"),
}
"""Kind -> parts of the names of its kernels or operations; the first that fits counts."""


class Profiled:
    """A progress that profiles some steps of a run, and shows nothing."""

    def __init__(self, first: int, activity: ProfilerActivity) -> None:
        self.first, self.profiler = first, profile(activities=[activity])
        self.seconds = 0.0

    def start(self, step: int, steps: int) -> None:
        """Nothing."""

    def scored(self, step: int, score: float, *, is_best: bool) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""

    def update(self, step: int, loss: float, sentences: int) -> None:
        """Begin, or end, when it is time."""
        if step == self.first:
            self.profiler.start()
            self.seconds = -time.perf_counter()
        if step == self.first + STEPS:
            self.seconds += time.perf_counter()
            self.profiler.stop()


def main() -> None:
    """Profile and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--data", help="folder that holds sts/STS-B")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", help="JSON file for the figures")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    on_cuda = device.type == "cuda"
    first = 200 if on_cuda else STEPS
    watcher = Profiled(first, ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU)
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.txt"
        texts.write_text("\n".join(short_texts(arguments.data)) + "\n", encoding="utf-8")
        given = {"preset": "paper", "model": arguments.model, "data": (str(texts),), "output": f"{folder}/encoder"}
        settings = {"steps": first + 2 * STEPS, "max_length": TOKENS, "device": device.type}
        run_training(given | settings, progress=watcher)
    spent = by_kind(watcher, "self_device_time_total" if on_cuda else "self_cpu_time_total")
    step, seen = 1000 * watcher.seconds / STEPS, sum(spent.values())
    print(f"{step:.1f} ms a step, of which {seen:.1f} are seen by the profiler")
    for kind, milliseconds in spent.most_common():
        print(f"{kind:34}{milliseconds:8.2f} ms{100 * milliseconds / seen:6.1f}%")
    if arguments.output:
        figures = {"model": arguments.model, "milliseconds": {"step": step, **dict(spent.most_common())}}
        write_json(Path(arguments.output), {**figures, "environment": describe_environment(device.type)})


def by_kind(watcher: Profiled, column: str) -> Counter[str]:
    """Milliseconds a step of each kind."""
    spent: Counter[str] = Counter()
    for event in watcher.profiler.key_averages():
        name = event.key.lower()
        kind = next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), "all else")
        spent[kind] += getattr(event, column) / 1000 / STEPS
    return spent


if __name__ == "__main__":
    main()
