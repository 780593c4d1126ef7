"""Our training against the yardsticks: a step with all that it needs, and a whole run with its dev scores."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from selfguide.benchmark.rounds import Comparison, Way
from selfguide.benchmark.yardstick import BATCH, TOKENS, Yardstick
from selfguide.data.pairs import read_pairs
from selfguide.training.progress import Silent
from selfguide.training.train import run_training

OURS, PAPER, TODAY = "selfguide", "the paper's way", "plain today"


def compare_steps(
    texts: Sequence[str], *, model: str, device: torch.device, steps: int, peer_steps: int, scratch: Path
) -> Comparison:
    """Seconds a step of real runs of ``selfguide train``: views, padding, capture and logging included."""
    seeds = iter(range(1, 1_000_000))

    def ours() -> float:
        settings = {"steps": steps, "seed": next(seeds), "max_length": TOKENS}
        summary = run_training(_given(texts, model, device, scratch) | settings, overwrite=True, progress=Silent())
        return summary.seconds / summary.steps_taken

    ways: dict[str, Way] = {OURS: ours}
    for name, today in ((PAPER, False), (TODAY, True)):
        ways[name] = _steps_of(Yardstick(model, str(device), today=today), texts, peer_steps)
    return Comparison("training step", "seconds", ways, {"our steps": steps, "sentences in a batch": BATCH})


def compare_runs(
    texts: Sequence[str], dev: Path, *, model: str, device: torch.device, scratch: Path, steps: int | None
) -> Comparison:
    """Seconds of a whole run of the preset ``paper`` with its dev scores, against the same the paper's way."""
    count = steps or len(set(texts)) // BATCH

    def ours() -> float:
        began = time.perf_counter()
        settings = {"dev": str(dev), "steps": count, "patience": 0}
        run_training(_given(texts, model, device, scratch) | settings, overwrite=True, progress=Silent())
        return time.perf_counter() - began

    def paper() -> float:
        began = time.perf_counter()
        Yardstick(model, str(device), today=False).run(texts, read_pairs(dev), steps=count)
        return time.perf_counter() - began

    return Comparison("whole run with dev scores", "seconds", {OURS: ours, PAPER: paper}, {"steps": count}, warm_up=False)


def _given(texts: Sequence[str], model: str, device: torch.device, scratch: Path) -> dict[str, object]:
    source = scratch / "training.txt"
    source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return {
        "preset": "paper",
        "model": model,
        "data": (str(source),),
        "output": str(scratch / "trained"),
        "device": device.type,
    }


def _steps_of(yardstick: Yardstick, texts: Sequence[str], count: int) -> Way:
    def work() -> float:
        batches = yardstick.batches(texts, count)
        began = time.perf_counter()
        for batch in batches:
            yardstick.step(batch)
        return (time.perf_counter() - began) / len(batches)

    return work
