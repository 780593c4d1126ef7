"""SentEval's seven tasks: scores beside the paper's, and our batched training against one classifier after the other.

    python benchmarks/senteval.py --model ../shared/encoders/bert-base-uncased --data ../shared/data --device cuda
    python benchmarks/senteval.py --data ../shared/data --max-epochs 8          # speed alone: random vectors, few rounds

The yardstick is what one would write down first: a module, autograd, torch's Adam, one batch and one classifier after the
other, on the same device. It trains some of the very same classifiers for some hundred steps; the time of a step is
multiplied by the steps that ours took all together (its scores on validation rows are left out). On a CPU it is timed with
one thread and with all, and the faster one counts.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from selfguide.data.senteval import LAYOUTS
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.protocol import Embedder
from selfguide.encoders.loading import load_encoder
from selfguide.environment import describe_environment
from selfguide.evaluation import senteval
from selfguide.evaluation.classifiers import Examples, Fitted, Recipe, Split, fit
from selfguide.evaluation.senteval import TransferTask, senteval_tasks
from selfguide.evaluation.vectors import Vectors

PAPER = {"MR": 81.46, "CR": 86.71, "SUBJ": 95.37, "MPQA": 87.90, "SST2": 85.83, "TREC": 90.30, "MRPC": 73.36, "Avg": 85.85}
"""Table 4, BERT-base, mean pooling."""


YARDSTICK_STEPS = 150
"""Of each classifier that the yardstick trains; a third of them again before, to warm up."""


@dataclass
class Fits:
    """A call of ``fit``: what was trained, and for how long."""

    examples: Examples
    splits: Sequence[Split]
    penalties: Tensor
    recipe: Recipe
    rounds: Tensor

    @property
    def steps(self) -> int:
        """Optimiser steps of all classifiers."""
        epochs = self.recipe.epoch_size * self.rounds.sum(dim=1)
        return sum(int(n) * -(-len(s.train) // self.recipe.batch) for n, s in zip(epochs, self.splits, strict=True))


class RandomWords:
    """Means of random word vectors, so that training goes on about as long as with real vectors."""

    name = "random words"
    protocol: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, dim: int) -> None:
        self.words: dict[str, npt.NDArray[np.float32]] = {}
        self.dim, self.chance = dim, np.random.default_rng(1)

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences."""
        return np.stack([np.mean([self._word(word) for word in sentence.split()], axis=0) for sentence in sentences])

    def _word(self, word: str) -> npt.NDArray[np.float32]:
        if word not in self.words:
            self.words[word] = self.chance.standard_normal(self.dim, dtype=np.float32)
        return self.words[word]


def main() -> None:
    """Score, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder that holds senteval/MR and the others")
    parser.add_argument("--model", help="encoder to pool by the mean; without one, random vectors")
    parser.add_argument("--dim", type=int, default=768, help="size of random vectors")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", nargs="*", default=list(LAYOUTS))
    parser.add_argument("--hidden", type=int, default=50)
    parser.add_argument("--sst-train", default="phrases", choices=("phrases", "sentences"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--max-epochs", type=int, help="begin no round after more epochs: a speed test, the scores say little"
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=6,
        help="classifiers that the yardstick trains, of folds and of last fits each; 0: none",
    )
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args()
    tasks = read_tasks(arguments)
    began = time.perf_counter()
    vectors = Vectors(embedder(arguments), (sentence for task in tasks for sentence in task.sentences()))
    print(f"{len(vectors)} vectors in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    rows = [measure(task, vectors, arguments) for task in tasks]
    report(rows, arguments)
    if arguments.output:
        record = {"arguments": {k: str(v) for k, v in vars(arguments).items()}, "tasks": rows}
        record["environment"] = describe_environment(arguments.device)
        arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read_tasks(arguments: argparse.Namespace) -> list[TransferTask]:
    """The tasks, with fewer epochs where asked for."""
    options = {"hidden": arguments.hidden, "device": arguments.device, "sst_train": arguments.sst_train}
    tasks = senteval_tasks(arguments.data, arguments.tasks, **options)
    if arguments.max_epochs is not None:
        tasks = [replace(task, recipe=replace(task.recipe, max_epochs=arguments.max_epochs)) for task in tasks]
    return tasks


def embedder(arguments: argparse.Namespace) -> Embedder:
    """What makes the vectors."""
    if not arguments.model:
        return RandomWords(arguments.dim)
    encoder = load_encoder(arguments.model)
    encoder.model.to(arguments.device)
    return PooledEmbedder(encoder, pooling="mean")


def measure(task: TransferTask, vectors: Vectors, arguments: argparse.Namespace) -> dict[str, Any]:
    """Score a task by ours, and time the yardstick on some of its classifiers."""
    calls: list[Fits] = []

    def recorded_fit(examples: Examples, splits: Sequence[Split], penalties: Tensor, **options: Any) -> Fitted:  # noqa: ANN401
        fitted = fit(examples, splits, penalties, **options)
        calls.append(Fits(examples, splits, penalties, options["recipe"], fitted.rounds))
        return fitted

    senteval.fit = recorded_fit
    (score,), seconds = timed(lambda: task.score(vectors, seed=arguments.seed), arguments.device)
    row = {
        "task": task.name,
        "value": score.value,
        "protocol": score.protocol,
        "seconds": seconds,
        "classifiers": sum(call.rounds.numel() for call in calls),
        "rounds": sum(int(call.rounds.sum()) for call in calls),
        "steps": sum(call.steps for call in calls),
    }
    if arguments.samples:
        row["one_by_one_seconds"] = sum(one_by_one_seconds(call, arguments) for call in calls)
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def one_by_one_seconds(call: Fits, arguments: argparse.Namespace) -> float:
    """Seconds that the yardstick would take for all classifiers of a call, from some steps of some of them."""
    picked = torch.linspace(0, call.penalties.numel() - 1, arguments.samples).long().tolist()
    all_threads = torch.get_num_threads()
    by_threads = []
    for threads in {1, all_threads} if arguments.device == "cpu" else {all_threads}:
        torch.set_num_threads(threads)
        by_threads.append(statistics.mean(step_seconds(call, *divmod(n, call.penalties.shape[1])) for n in picked))
    torch.set_num_threads(all_threads)
    return min(by_threads) * call.steps


def step_seconds(call: Fits, split_number: int, position: int) -> float:
    """Seconds that the yardstick takes for a step of one classifier."""
    features, labels, recipe = call.examples.features, call.examples.labels, call.recipe
    dim, classes, hidden = features.shape[1], call.examples.classes, recipe.hidden
    layers = [nn.Linear(dim, hidden), nn.Sigmoid(), nn.Linear(hidden, classes)] if hidden else [nn.Linear(dim, classes)]
    model = nn.Sequential(*layers).to(features.device)
    penalty = float(call.penalties[split_number, position])
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate, weight_decay=penalty)
    criterion = nn.CrossEntropyLoss()
    train = call.splits[split_number].train.to(features.device)

    def run(steps: int) -> None:
        while steps > 0:
            order = train[torch.randperm(len(train), device=train.device)]
            for start in range(0, len(order), recipe.batch)[:steps]:
                rows = order[start : start + recipe.batch]
                loss = criterion(model(features[rows]), labels[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps -= 1

    run(YARDSTICK_STEPS // 3)
    return timed(lambda: run(YARDSTICK_STEPS), features.device.type)[1] / YARDSTICK_STEPS


def timed(work: Callable[[], Any], device: str) -> tuple[Any, float]:
    """What work gives, and its seconds, the device's included."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    wait()
    began = time.perf_counter()
    result = work()
    wait()
    return result, time.perf_counter() - began


def report(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    """Print the table."""
    print(
        f"{'task':6}{'ours':>8}{'paper':>8}{'diff':>7}{'fits':>6}{'rounds':>8}{'seconds':>9}{'one by one':>12}{'ratio':>8}"
    )
    whole: dict[str, Any] = {key: sum(row[key] for row in rows) for key in ("classifiers", "rounds", "seconds")}
    whole |= {"task": "Avg", "value": statistics.mean(row["value"] for row in rows)}
    if arguments.samples:
        whole["one_by_one_seconds"] = sum(row["one_by_one_seconds"] for row in rows)
    for row in [*rows, whole]:
        is_comparable = row["task"] != "Avg" or len(rows) == len(LAYOUTS)
        paper = PAPER[row["task"]] if is_comparable else float("nan")
        line = f"{row['task']:6}{row['value']:8.2f}{paper:8.2f}{row['value'] - paper:7.2f}"
        line += f"{row['classifiers']:6}{row['rounds']:8}{row['seconds']:9.1f}"
        if arguments.samples:
            line += f"{row['one_by_one_seconds']:12.1f}{row['one_by_one_seconds'] / row['seconds']:8.1f}"
        print(line)
    if arguments.samples:
        print(f"one by one: scaled from {YARDSTICK_STEPS} steps of {arguments.samples} classifiers of each kind")


if __name__ == "__main__":
    main()
