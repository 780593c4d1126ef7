"""Our training step, making the views included, against the yardsticks, in one run on the same sentences.

    python benchmarks/training_step.py --model mini --data src/selfguide/bundled/sentences.txt

Rounds of the three alternate, so that a noisy machine is noisy for all. Ours is a real run of ``selfguide train``: views,
padding, capture, logging and all, divided by its steps.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from selfguide.data.sentences import read_sentences
from selfguide.devices import choose_device
from selfguide.encoders.loading import locate
from selfguide.environment import describe_environment
from selfguide.training.progress import Silent
from selfguide.training.train import run_training
from yardstick import TOKENS, Yardstick


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--data", required=True)
    parser.add_argument("--column", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="steps of a yardstick in a round")
    parser.add_argument("--our-steps", type=int, default=60, help="steps of our run in a round")
    parser.add_argument("--output", help="write the figures to this JSON file")
    arguments = parser.parse_args()
    device = choose_device("auto")
    sentences = list(read_sentences(Path(arguments.data), columns=tuple(arguments.column)))
    folder = locate(arguments.model).location
    rivals = {
        "the paper's way": Yardstick(folder, str(device), today=False),
        "plain today": Yardstick(folder, str(device), today=True),
    }
    times: dict[str, list[float]] = {name: [] for name in (*rivals, "selfguide")}
    for number in range(arguments.rounds):
        for name, rival in rivals.items():
            times[name].append(time_rival(rival, sentences, arguments.steps))
        times["selfguide"].append(time_ours(arguments.model, sentences, arguments.our_steps, seed=number + 1))
        print({name: f"{1000 * values[-1]:.1f} ms" for name, values in times.items()}, file=sys.stderr)
    report(arguments, times, str(device))


def time_rival(rival: Yardstick, sentences: list[str], steps: int) -> float:
    """Seconds a step, after two steps that do not count."""
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(len(sentences), generator=generator).tolist()
    batches = [[sentences[i] for i in order[16 * n : 16 * n + 16]] for n in range(steps + 2)]
    for batch in batches[:2]:
        rival.step(batch)
    began = time.perf_counter()
    for batch in batches[2:]:
        rival.step(batch)
    return (time.perf_counter() - began) / steps


def time_ours(model: str, sentences: list[str], steps: int, *, seed: int) -> float:
    """Seconds a step of a whole run, the making of views and all captures included."""
    with tempfile.TemporaryDirectory() as scratch:
        texts = Path(scratch) / "sentences.txt"
        texts.write_text("\n".join(sentences), encoding="utf-8")
        given = {"model": model, "data": (str(texts),), "output": f"{scratch}/encoder", "steps": steps, "seed": seed}
        summary = run_training({**given, "preset": "paper", "max_length": TOKENS}, progress=Silent())
    return summary.seconds / summary.steps_taken


def report(arguments: argparse.Namespace, times: dict[str, list[float]], device: str) -> None:
    """Print a table, and write the figures where asked."""
    ours = statistics.median(times["selfguide"])
    print(f"{'':18}{'ms a step':>10}{'spread':>16}{'ratio':>8}")
    for name, values in times.items():
        median = statistics.median(values)
        spread = f"{1000 * min(values):.1f} to {1000 * max(values):.1f}"
        print(f"{name:18}{1000 * median:10.1f}{spread:>16}{median / ours:8.2f}")
    if arguments.output:
        figures = {"arguments": vars(arguments), "seconds_a_step": times, "environment": describe_environment(device)}
        Path(arguments.output).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
