"""The baselines on the seven STS sets, in one run, beside what is published for BERT-base.

    python benchmarks/baselines.py --model ../shared/encoders/bert-base-uncased --data ../shared/data \
        --nli ../shared/data/nli/*_train_subset.txt --device cuda

Cosine Spearman x100, subsets of a year together. NLI text is what ``--nli`` names, STS-B text all sentences of its train,
dev and test files without their labels. The published whitening was fitted on more NLI text than a subset holds.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import selfguide
from selfguide.data.sentences import read_sentences
from selfguide.devices import choose_device
from selfguide.embedders.base import EncoderEmbedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.prompt import PromptEmbedder
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.embedders.wk import WkEmbedder
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.loading import load_encoder
from selfguide.environment import describe_environment

COLUMNS = ("STS-B", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS16", "Avg")


@dataclass(frozen=True)
class Baseline:
    """An embedder, the text it learns from, and what is published."""

    label: str
    make: Callable[[Encoder], EncoderEmbedder]
    published: dict[str, float]
    fitted_on: str | None = None
    """``nli`` or ``sts-b``."""
    text: str = "raw"


PROMPT = dict(zip(COLUMNS, (70.60, 67.16, 60.96, 73.83, 62.18, 71.54, 68.68, 67.85), strict=True))
BASELINES = (
    Baseline("first-last", lambda encoder: PooledEmbedder(encoder, pooling="first-last"), {"Avg": 60.73}),
    Baseline("wk", WkEmbedder, {"Avg": 25.58}),
    Baseline("whitening, NLI text", WhiteningEmbedder, {"Avg": 66.28}, fitted_on="nli"),
    Baseline("whitening, STS-B text", WhiteningEmbedder, {}, fitted_on="sts-b"),
    Baseline("prompt, tokenised text", PromptEmbedder, PROMPT, text="senteval"),
)


def main() -> None:
    """Score all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=Path, help="folder with sts/ and sts-senteval-tok/")
    parser.add_argument("--nli", required=True, type=Path, nargs="+", help="sentences of NLI, one a line")
    parser.add_argument("--device", default="auto")
    parser.add_argument("-o", "--output", help="write rows and times to this JSON file")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    encoder = load_encoder(arguments.model)
    encoder.model.to(device)
    texts = {
        "nli": read_sentences(arguments.nli),
        "sts-b": read_sentences(arguments.data / "sts" / "STS-B", columns=("2", "3")),
    }
    print("".ljust(24) + "".join(column.rjust(8) for column in COLUMNS) + "  seconds")
    runs = [run(baseline, encoder, texts, arguments.data) for baseline in BASELINES]
    if arguments.output:
        record = {"runs": runs, "environment": describe_environment(str(device))}
        Path(arguments.output).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def run(baseline: Baseline, encoder: Encoder, texts: dict[str, Any], data: Path) -> dict[str, object]:
    """Fit, score and print one baseline."""
    began = time.perf_counter()
    embedder = baseline.make(encoder)
    sentences = texts[baseline.fitted_on] if baseline.fitted_on else None
    if sentences:
        embedder.fit(sentences)
    rows = selfguide.evaluate(embedder, tasks="sts", text=baseline.text, data=str(data), progress=False)
    seconds = time.perf_counter() - began
    scores = {row.dataset: row.value for row in rows if row.metric == "spearman"}
    differences = {column: scores[column] - value for column, value in baseline.published.items()}
    print(baseline.label.ljust(24) + "".join(f"{scores[column]:8.2f}" for column in COLUMNS) + f"{seconds:9.1f}")
    for label, values, form in (("  published", baseline.published, "8.2f"), ("  difference", differences, "+8.2f")):
        if values:
            print(label.ljust(24) + "".join(f"{values[c]:{form}}" if c in values else " " * 8 for c in COLUMNS), flush=True)
    return {
        "baseline": baseline.label,
        "fitted_on": baseline.fitted_on,
        "fitting_sentences": len(sentences) if sentences else None,
        "scores": scores,
        "published": baseline.published,
        "seconds": seconds,
        "protocol": embedder.protocol,
    }


if __name__ == "__main__":
    main()
