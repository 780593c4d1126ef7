"""WK pooling against one QR factorisation after the other, and against mean pooling, in one run on the same sentences.

    python benchmarks/wk.py --model ../shared/encoders/bert-base-uncased --data ../shared/data
    python benchmarks/wk.py --model ../shared/encoders/bert-base-uncased --data ../shared/data --device cuda --sentences 2000

The sentences are those of STS-B test. The rival is the published algorithm, on the CPU as there: a QR of a small matrix for
each layer of each token, in numpy. It is given states that are ready, of some of the sentences, and its time is scaled by
the tokens. The rounds of all alternate, so that a noisy machine is noisy for all.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from selfguide.data.records import SEVEN
from selfguide.data.sts import read_sts
from selfguide.devices import choose_device, fast_products
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.wk import WkEmbedder, wk_vectors
from selfguide.encoders.encoder import Encoder, map_rows, run_states
from selfguide.encoders.loading import load_encoder
from selfguide.environment import describe_environment

FIRST_LAYER, WINDOW = 4, 2
Array = npt.NDArray[np.float64]
Batch = tuple[tuple[Tensor, ...], Tensor]
"""States of the layers that WK reads, each ``(batch, tokens, dim)``, and the mask."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=Path, help="folder that holds sts/STS-B")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--qr-sentences", type=int, default=50, help="how many of them the rival gets")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    encoder = load_encoder(arguments.model)
    encoder.model.to(device)
    pairs = read_sts(next(record for record in SEVEN if record.name == "STS-B"), arguments.data).pairs
    sentences = list(dict.fromkeys(text for pair in pairs for text in pair[1:]))[: arguments.sentences]
    times = measure(encoder, sentences, arguments)
    ratios = report(times)
    if arguments.output:
        record = {
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
            "seconds": times,
            "ratios": ratios,
            "environment": describe_environment(str(device)),
        }
        arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def measure(encoder: Encoder, sentences: list[str], arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds for all sentences, of each way in each round."""
    mean, ours = PooledEmbedder(encoder, pooling="mean"), WkEmbedder(encoder, window=WINDOW, first_layer=FIRST_LAYER)
    batches = states_of(encoder, sentences)
    sample = states_of(encoder, sentences[: arguments.qr_sentences])
    arrays = arrays_of(sample)
    scale = sum(int(mask.sum()) for _, mask in batches) / sum(int(mask.sum()) for _, mask in sample)
    ways: dict[str, Callable[[], Any]] = {
        "mean pooling": lambda: mean.encode(sentences),
        "ours": lambda: ours.encode(sentences),
        "states only": lambda: states_of(encoder, sentences),
        "ours, of states": lambda: pooled(batches),
        "QR, of states": lambda: [sentence_by_qr(tokens) for tokens in arrays],
    }
    difference = np.abs(pooled(sample).cpu().numpy() - np.array(ways["QR, of states"]())).max()
    print(f"largest difference of ours from QR: {difference:.1e}", file=sys.stderr)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(arguments.rounds + 1):
        for name, work in ways.items():
            seconds = timed(work, encoder.model.device) * (scale if name == "QR, of states" else 1)
            if number:  # the first round warms up
                times[name].append(seconds)
        print({name: f"{values[-1]:.3f} s" for name, values in times.items() if values}, file=sys.stderr, flush=True)
    return times


@torch.no_grad()
def pooled(batches: list[Batch]) -> Tensor:
    """Ours, of states that are ready."""
    return torch.cat([wk_vectors(states, mask, window=WINDOW) for states, mask in batches])


def states_of(encoder: Encoder, sentences: list[str]) -> list[Batch]:
    """States of all sentences, in the batches that an embedder makes."""
    batches: list[Batch] = []

    def read(ids: Tensor, mask: Tensor) -> Tensor:
        batches.append((run_states(encoder.model, ids, mask).hidden[FIRST_LAYER:], mask))
        return torch.empty(len(mask), 0)

    with fast_products(encoder.model.device):
        map_rows(encoder, encoder.tokenize(sentences), read, shape=(0,))
    return batches


def arrays_of(batches: list[Batch]) -> list[Array]:
    """Of each sentence all tokens but the last one: ``(tokens, layers, dim)``."""
    found = []
    for states, mask in batches:
        stacked = torch.stack(states, dim=2).double().cpu().numpy()
        found += [stacked[row, : length - 1] for row, length in enumerate(mask.sum(dim=1).tolist())]
    return found


def sentence_by_qr(tokens: Array) -> Array:
    """The published algorithm, of ``(tokens, layers, dim)``."""
    vectors = [layer_weights_by_qr(layers) @ layers for layers in tokens]
    unit = tokens / np.linalg.norm(tokens, axis=2, keepdims=True)
    variances = np.array([np.var(np.diag(layers @ layers.T, 1)) for layers in unit])
    vector: Array = variances / variances.sum() @ np.array(vectors)
    return vector


def layer_weights_by_qr(layers: Array) -> Array:
    """Weights over the layers of one token, of ``(layers, dim)``."""
    alignment, novelty = np.zeros(len(layers)), np.zeros(len(layers))
    for number in range(len(layers)):
        left = layers[number - WINDOW : number] if number >= WINDOW else layers[:0]
        matrix = np.vstack([left, layers[number + 1 : number + WINDOW + 1], layers[number]])
        triangle = np.linalg.qr(matrix.T, mode="r")
        neighbours, own = triangle[:-1, :-1], triangle[:, -1]
        directions = neighbours / np.linalg.norm(neighbours, axis=0)
        agreement = directions.mean(axis=1) @ own[:-1] / np.linalg.norm(own[:-1])
        alignment[number] = 1 / (agreement * len(matrix) * 2)
        novelty[number] = abs(own[-1]) / np.linalg.norm(own)
    weights: Array = alignment / alignment.sum() + novelty / novelty.sum()
    return weights / weights.sum()


def timed(work: Callable[[], Any], device: torch.device) -> float:
    """Seconds of work, the device's included."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began


def report(times: dict[str, list[float]]) -> dict[str, float]:
    """Print a table; gives the ratios."""
    median = {name: statistics.median(values) for name, values in times.items()}
    ratios = {
        "QR / ours, of states": median["QR, of states"] / median["ours, of states"],
        "QR / ours, encoder included": (median["states only"] + median["QR, of states"]) / median["ours"],
        "ours / mean pooling, encoder included": median["ours"] / median["mean pooling"],
    }
    print(f"{'':20}{'seconds':>10}{'spread':>20}")
    for name, values in times.items():
        print(f"{name:20}{median[name]:10.3f}{f'{min(values):.3f} to {max(values):.3f}':>20}")
    for name, ratio in ratios.items():
        print(f"{name:40}{ratio:10.2f}")
    return ratios


if __name__ == "__main__":
    main()
