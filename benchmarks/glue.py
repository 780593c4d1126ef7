"""GLUE by fine-tuning, scored and timed, beside the paper's table 10.

    python benchmarks/glue.py --model ../shared/encoders/bert-base-uncased --data ../shared/data \
        --tasks CoLA,RTE,MRPC,SST-2 --seeds 1,2,3 --device cuda

Without --data the hub's copy is read, which QNLI needs. The paper says neither its settings nor its metric for MRPC; ours
are in the rows' protocol (--output). A task's seconds hold everything: reading, loading, all seeds and learning rates.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from selfguide.devices import choose_device
from selfguide.environment import describe_environment
from selfguide.evaluation.glue import glue_scores
from selfguide.scores import ScoreRow

# table 10: mean and standard deviation over seeds of BERT-base as it is, and tuned with SG-OPT before
PAPER = {
    "QNLI": ("90.97 ±0.49", "91.28 ±0.28"),
    "SST-2": ("91.08 ±0.73", "91.68 ±0.41"),
    "CoLA": ("56.63 ±3.82", "56.36 ±3.98"),
    "MRPC": ("87.09 ±1.87", "86.96 ±1.11"),
    "RTE": ("62.50 ±2.77", "62.75 ±3.91"),
}


def main() -> None:
    """Run the tasks and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, help="folder that holds glue/TASK/train.tsv and dev.tsv; the hub without it")
    parser.add_argument("--tasks", default="SST-2,CoLA,MRPC,RTE")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", type=Path, help="write rows and seconds to this JSON file")
    arguments = parser.parse_args()
    device = str(choose_device(arguments.device))
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    rows: list[ScoreRow] = []
    seconds: dict[str, float] = {}
    for task in arguments.tasks.split(","):
        began = time.perf_counter()
        rows += glue_scores(arguments.model, [task], data=arguments.data, seeds=seeds, device=device, progress=tell)
        seconds[task] = time.perf_counter() - began
        if arguments.output:  # after each task, so that an interrupted run leaves what it has
            record = {
                "rows": [row.as_json() for row in rows],
                "seconds": seconds,
                "environment": describe_environment(device),
            }
            arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    report(rows, seconds)


def tell(what: str, step: int, steps: int) -> None:
    """Say on stderr that a training begins or is done."""
    if step in (1, steps):
        print(f"{time.strftime('%H:%M:%S')} {what}: step {step} of {steps}", file=sys.stderr, flush=True)


def report(rows: list[ScoreRow], seconds: dict[str, float]) -> None:
    """Print each metric's mean and spread over the seeds, each seed with its learning rate, and the paper's figures."""
    print(f"{rows[0].embedder}, last 90% of the validation set, x100")
    print(
        f"{'task':6} {'metric':9} {'ours':>12}  {'paper: BERT':>12} {'+ SG-OPT':>12}  {'seconds':>8}  seeds (learning rate)"
    )
    for task, metric in dict.fromkeys((row.dataset, row.metric) for row in rows):
        scores = [row for row in rows if (row.dataset, row.metric) == (task, metric)]
        values = [row.value for row in scores]
        spread = f" ±{statistics.stdev(values):.2f}" if len(values) > 1 else ""
        ours = f"{statistics.mean(values):.2f}{spread}"
        each = "  ".join(f"{row.seed}: {row.value:.2f} ({row.protocol['learning_rate']:g})" for row in scores)
        before, after = PAPER[task]
        print(f"{task:6} {metric:9} {ours:>12}  {before:>12} {after:>12}  {seconds[task]:8.1f}  {each}")


if __name__ == "__main__":
    main()
