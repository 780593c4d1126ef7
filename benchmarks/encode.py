"""Our bulk encoding against ``SentenceTransformer.encode`` with its defaults, in one run on the same sentences.

    python benchmarks/encode.py --model mini --data ../shared/data
    python benchmarks/encode.py --model ../shared/encoders/bert-base-uncased --data sentences.txt --sentences 1000

The vectors are the last [CLS] states in float32, tokenising included. The rounds of both alternate, so that a noisy machine
is noisy for both. A folder for ``--data`` is one that holds ``sts/STS-B``, whose test sentences are taken.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from selfguide.bulk.coders import FirstTokenCoder
from selfguide.data.records import SEVEN
from selfguide.data.sentences import read_sentences
from selfguide.data.sts import read_sts
from selfguide.devices import choose_device
from selfguide.encoders.loading import load_encoder, locate
from selfguide.environment import describe_environment

Vectors = npt.NDArray[np.float32]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    sentences = read(arguments.data, arguments.sentences)
    ways = {"sentence-transformers": rival(arguments.model, device), "selfguide": ours(arguments, device)}
    first, second = (work(sentences) for work in ways.values())  # warms up, too
    difference = float(np.abs(first - second).max())
    times = measure(ways, sentences, arguments.rounds)
    ratio = report(times, len(sentences), difference)
    if arguments.output:
        record = {
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
            "sentences": len(sentences),
            "seconds": times,
            "ratio": ratio,
            "largest_difference": difference,
            "environment": describe_environment(str(device)),
        }
        arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read(data: Path, count: int) -> list[str]:
    """The first different sentences."""
    if data.is_file():
        return list(islice(read_sentences(data), count))
    pairs = read_sts(next(record for record in SEVEN if record.name == "STS-B"), data).pairs
    return list(dict.fromkeys(text for pair in pairs for text in pair[1:]))[:count]


def rival(model: str, device: torch.device) -> Callable[[list[str]], Vectors]:
    """sentence-transformers with [CLS] pooling, cut at the same length."""
    options = {"max_seq_length": load_encoder(model).max_length, "model_kwargs": {"dtype": torch.float32}}
    transformer = Transformer(locate(model).location, **options)
    found = SentenceTransformer(modules=[transformer, Pooling(transformer.get_embedding_dimension(), "cls")])
    found.to(device)
    return lambda sentences: found.encode(sentences, show_progress_bar=False)


def ours(arguments: argparse.Namespace, device: torch.device) -> Callable[[list[str]], Vectors]:
    """What ``selfguide encode`` does with a shard, one step after the other."""
    encoder = load_encoder(arguments.model)
    encoder.model.to(device)
    coder = FirstTokenCoder(encoder, batch_tokens=arguments.batch_tokens)
    return lambda sentences: coder.vectors(coder.prepare(sentences), lambda more: None)


def measure(ways: dict[str, Callable[[list[str]], Vectors]], sentences: list[str], rounds: int) -> dict[str, list[float]]:
    """Seconds for all sentences, of each way in each round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            began = time.perf_counter()
            work(sentences)
            times[name].append(time.perf_counter() - began)
        print({name: f"{values[-1]:.2f} s" for name, values in times.items()}, file=sys.stderr, flush=True)
    return times


def report(times: dict[str, list[float]], count: int, difference: float) -> float:
    """Print a table; gives the ratio of the medians."""
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'':24}{'seconds':>10}{'spread':>18}{'a second':>12}")
    for name, values in times.items():
        print(f"{name:24}{median[name]:10.2f}{f'{min(values):.2f} to {max(values):.2f}':>18}{count / median[name]:12.0f}")
    ratio = median["sentence-transformers"] / median["selfguide"]
    print(f"ratio {ratio:.2f}, largest difference of the vectors {difference:.1e}")
    return ratio


if __name__ == "__main__":
    main()
