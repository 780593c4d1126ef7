"""The paper's main run, timed and scored: a preset on STS-B text, then the seven STS sets.

    python benchmarks/paper_run.py --model ../shared/encoders/bert-base-uncased --data ../shared/data/sts --seeds 1,2,3,4

Trains on the sentences of STS-B train, dev and test without their labels (as the paper does: transductive), selects on STS-B
dev, and scores the saved folder in float32 through sentence-transformers: cosine Spearman x100, subsets of a year together.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

from selfguide.data.pairs import read_pairs
from selfguide.devices import choose_device
from selfguide.environment import describe_environment
from selfguide.similarity import paired_cosine, spearman
from selfguide.training.progress import Silent
from selfguide.training.train import run_training

SETS = ("STS-B", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS16")


def main() -> None:
    """Run the seeds and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=Path, help="folder of the seven sets")
    parser.add_argument("--seeds", default="1,2,3,4")
    parser.add_argument("--output", help="write rows and times to this JSON file")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON", help="further settings of the training")
    arguments = parser.parse_args()
    settings = {name: json.loads(value) for name, _, value in (text.partition("=") for text in arguments.set)}
    rows = [run_seed(arguments, int(seed), settings) for seed in arguments.seeds.split(",")]
    report(rows)
    if arguments.output:
        record = {"arguments": {k: str(v) for k, v in vars(arguments).items()}, "runs": rows}
        record["environment"] = describe_environment(str(choose_device("auto")))
        Path(arguments.output).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def run_seed(arguments: argparse.Namespace, seed: int, settings: dict[str, object]) -> dict[str, object]:
    """Train with one seed, score; gives scores and seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        given = {
            "preset": "paper",
            "model": arguments.model,
            "data": (str(arguments.data / "STS-B"),),
            "column": ("2", "3"),
            "dev": str(arguments.data / "STS-B" / "dev.tsv"),
            "output": f"{scratch}/encoder",
            "seed": seed,
            **settings,
        }
        began = time.perf_counter()
        summary = run_training(given, progress=Silent())
        whole = time.perf_counter() - began
        scores = seven_sts(SentenceTransformer(f"{scratch}/encoder"), arguments.data)
    row = {
        "seed": seed,
        "scores": scores,
        "steps": summary.steps_taken,
        "kept_step": summary.kept_step,
        "dev": summary.after,
        "loop_seconds": summary.seconds,
        "whole_run_seconds": whole,
        "ms_a_step_with_views_and_scores": 1000 * summary.seconds / summary.steps_taken,
        "last": summary.last,
    }
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def seven_sts(model: SentenceTransformer, data: Path) -> dict[str, float]:
    """Scores on the test sets, and their average."""
    scores = {}
    for name in SETS:
        files = [data / name / "test.tsv"] if name in ("STS-B", "SICK-R") else sorted((data / name).glob("*.tsv"))
        subsets = [read_pairs(file) for file in files]
        left = [sentence for subset in subsets for sentence in subset.sentences1]
        right = [sentence for subset in subsets for sentence in subset.sentences2]
        vectors = torch.from_numpy(model.encode(left + right, batch_size=256))
        cosines = paired_cosine(vectors[: len(left)], vectors[len(left) :])
        scores[name] = spearman(cosines.numpy(), [score for subset in subsets for score in subset.scores])
    return {**scores, "Avg": statistics.mean(scores.values())}


def report(rows: list[dict[str, object]]) -> None:
    """Print scores and times."""
    columns = (*SETS, "Avg")
    print("seed".ljust(10) + "".join(column.rjust(8) for column in columns) + "   seconds (whole run)")
    table = [dict(row["scores"]) for row in rows]  # type: ignore[call-overload]
    for row, scores in zip(rows, table, strict=True):
        print(f"{row['seed']!s:10}" + "".join(f"{scores[c]:8.2f}" for c in columns) + f"   {row['whole_run_seconds']:.1f}")
    print("mean".ljust(10) + "".join(f"{statistics.mean(s[c] for s in table):8.2f}" for c in columns))
    if len(table) > 1:
        print("sd".ljust(10) + "".join(f"{statistics.stdev(s[c] for s in table):8.2f}" for c in columns))


if __name__ == "__main__":
    main()
