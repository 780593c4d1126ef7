"""BERT-flow, fitted, timed and scored on the seven STS sets, beside the paper's row.

    python benchmarks/flow.py --model ../shared/encoders/bert-base-uncased --data ../shared/data --seeds 1,2,3 --device cuda

Fits on the sentences of STS-B train, dev and test without their labels (transductive, as the paper does), or on --text. Both
readings of its "Mean-2" are tried: first-last (layers 1 and l, what the original code does) and last-2 (what it says).
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import selfguide
from selfguide.data.sentences import Sentences, read_sentences
from selfguide.devices import choose_device
from selfguide.embedders.flow import FlowEmbedder
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.loading import load_encoder
from selfguide.environment import describe_environment

PAPER = {
    "STS-B": (71.35, 0.27),
    "SICK-R": (64.95, 0.16),
    "STS12": (64.32, 0.17),
    "STS13": (69.72, 0.25),
    "STS14": (63.67, 0.06),
    "STS15": (77.77, 0.15),
    "STS16": (69.59, 0.28),
    "Avg": (68.77, 0.07),
}
"""Table 1, BERT-base, "+ Flow": mean and standard deviation over seeds."""


def main() -> None:
    """Run poolings and seeds, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=Path, help="folder that holds sts/STS-B and the others")
    parser.add_argument("--text", nargs="+", type=Path, help="sentences to fit on; those of STS-B without it")
    parser.add_argument("--column", nargs="*", default=[], help="text columns of --text")
    parser.add_argument("--pooling", nargs="+", default=["first-last", "last-2"])
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", type=Path, help="write scores and seconds to this JSON file")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    encoder = load_encoder(arguments.model, max_length=FlowEmbedder.default_max_length)
    encoder.model.to(device)
    text = read_text(arguments)
    runs = []
    for pooling in arguments.pooling:
        for seed in map(int, arguments.seeds.split(",")):
            runs.append(run_seed(encoder, text, arguments.data, pooling=pooling, seed=seed))
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    report(runs)
    if arguments.output:
        record = {"runs": runs, "text": vars(text.counts), "environment": describe_environment(str(device))}
        arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read_text(arguments: argparse.Namespace) -> Sentences:
    """The sentences to fit on."""
    if arguments.text:
        return read_sentences(arguments.text, columns=tuple(arguments.column))
    return read_sentences(arguments.data / "sts" / "STS-B", columns=("2", "3"))


def run_seed(encoder: Encoder, text: Sentences, data: Path, *, pooling: str, seed: int) -> dict[str, Any]:
    """Fit with one seed, score; gives scores and seconds."""
    began = time.perf_counter()
    embedder = FlowEmbedder(encoder, pooling=pooling, seed=seed).fit(text)
    fitted = time.perf_counter()
    rows = selfguide.evaluate(embedder, tasks=("sts",), data=str(data), progress=False)
    scores = {row.dataset: row.value for row in rows if row.metric == "spearman" and row.dataset in PAPER}
    return {
        "pooling": pooling,
        "seed": seed,
        "scores": scores,
        "fit_seconds": fitted - began,
        "score_seconds": time.perf_counter() - fitted,
        "protocol": embedder.protocol,
    }


def report(runs: list[dict[str, Any]]) -> None:
    """Print the scores of each seed, their mean and spread, and the paper's row."""
    print("pooling".ljust(12) + "seed".ljust(6) + "".join(column.rjust(8) for column in PAPER) + "   seconds (fit)")
    for pooling in dict.fromkeys(run["pooling"] for run in runs):
        chosen = [run for run in runs if run["pooling"] == pooling]
        for run in chosen:
            line(pooling, run["seed"], run["scores"], f"   {run['fit_seconds']:.1f}")
        columns = {column: [run["scores"][column] for run in chosen] for column in PAPER}
        line(pooling, "mean", {column: statistics.mean(values) for column, values in columns.items()})
        if len(chosen) > 1:
            line(pooling, "sd", {column: statistics.stdev(values) for column, values in columns.items()})
    line("paper", "mean", {column: mean for column, (mean, _) in PAPER.items()})
    line("paper", "sd", {column: spread for column, (_, spread) in PAPER.items()})


def line(pooling: str, seed: int | str, scores: dict[str, float], end: str = "") -> None:
    """Print a line of the table."""
    print(f"{pooling:12}{seed!s:6}" + "".join(f"{scores[column]:8.2f}" for column in PAPER) + end)


if __name__ == "__main__":
    main()
