"""What smaller vectors cost on STS: fewer dimensions by several maps, int8, and bits; every sentence is embedded once.

    python benchmarks/smaller.py trained-1 trained-2 trained-3 --fit-on sentences.txt --data DIR --device cuda

The models are folders that ``selfguide train`` wrote, say with several seeds. Maps are learned from the vectors of
``--fit-on``, without labels, and compared on STS-B dev alone; the seven test sets are scored with the one that the product
has.
"""

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from selfguide.data.pairs import ScoredPairs, read_pairs
from selfguide.data.sentences import read_sentences
from selfguide.devices import choose_device
from selfguide.embedders.loading import load
from selfguide.embedders.pca import PcaEmbedder
from selfguide.embedders.protocol import Embedder
from selfguide.embedders.stored import StoredVectors
from selfguide.encoders.loading import load_encoder, saved_pooling
from selfguide.environment import describe_environment
from selfguide.evaluation.config import EvaluationConfig
from selfguide.evaluation.suite import plan_tasks, run_suite
from selfguide.similarity import paired_cosines, spearman

Matrix = npt.NDArray[np.float64]
VECTORS = ("float32", "int8", "binary")
Scores = dict[str, dict[str, float]]
"""By the name of the map, then by what vectors are stored as."""


class Remembered:
    """An embedder that embeds a sentence once."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.name, self.protocol = embedder.name, embedder.protocol
        self._vectors: dict[str, npt.NDArray[np.float32]] = {}

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given."""
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._vectors]
        if new:
            self._vectors.update(zip(new, self.embedder.encode(new), strict=True))
        return np.stack([self._vectors[sentence] for sentence in sentences])


class Mapped:
    """``(x - shift) W`` of another embedder's vectors."""

    def __init__(self, embedder: Embedder, name: str, shift: Matrix, weight: Matrix) -> None:
        self.embedder, self.shift, self.weight = embedder, shift, weight
        self.name, self.protocol = f"{embedder.name} {name}", {**embedder.protocol, "map": name}

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dimensions)``, of length 1."""
        found = (self.embedder.encode(sentences) - self.shift) @ self.weight
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="trained folders")
    parser.add_argument("--fit-on", required=True, nargs="+", type=Path, help="sentences, as for selfguide fit")
    parser.add_argument("--column", nargs="+", default=[], help="text columns of --fit-on")
    parser.add_argument("--data", required=True, type=Path, help="folder that holds sts")
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args()
    text = list(read_sentences(arguments.fit_on, columns=tuple(arguments.column)))
    dev = read_pairs(arguments.data / "sts" / "STS-B" / "dev.tsv")
    found: dict[str, list[Scores]] = {"STS-B dev": [], "seven STS sets": []}
    for model in arguments.models:
        embedder = Remembered(load(model, device=arguments.device))
        found["STS-B dev"].append(dev_scores(embedder, text, dev, arguments.dimensions))
        found["seven STS sets"].append(test_scores(model, embedder, text, arguments))
        for title, scores in found.items():
            report(title, scores)
    if arguments.output:
        record = {
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
            "sentences": len(text),
            "scores": found,
            "environment": describe_environment(str(choose_device(arguments.device))),
        }
        arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def dev_scores(embedder: Embedder, text: Sequence[str], dev: ScoredPairs, dimensions: int) -> Scores:
    """Spearman x100 on dev of every map and storage."""
    ways: list[Embedder] = [embedder]
    ways += [Mapped(embedder, *parts) for parts in maps(embedder.encode(text).astype(np.float64), dimensions)]
    names = ["all dimensions", *(way.name.removeprefix(f"{embedder.name} ") for way in ways[1:])]
    found: Scores = {}
    for name, way in zip(names, ways, strict=True):
        found[name] = {}
        for vectors in VECTORS:
            stored = StoredVectors(way, vectors=vectors, sentences=text)
            cosines = paired_cosines(stored.encode(dev.sentences1), stored.encode(dev.sentences2))
            found[name][vectors] = spearman(cosines, dev.scores)
    return found


def maps(vectors: Matrix, dimensions: int) -> Iterator[tuple[str, Matrix, Matrix]]:
    """Name, shift and matrix of every map that is compared, from the fitting vectors."""
    dim = vectors.shape[1]
    nothing, mean = np.zeros(dim), vectors.mean(axis=0)
    about_origin = np.linalg.svd(vectors.T @ vectors, hermitian=True)[0][:, :dimensions]
    directions, variances, _ = np.linalg.svd(np.cov(vectors.T), hermitian=True)
    directions, variances = directions[:, :dimensions], variances[:dimensions]
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(dim, dim)))[0][:, :dimensions]
    yield "first dimensions", nothing, np.eye(dim)[:, :dimensions]
    yield "random projection", nothing, turned
    yield "PCA about the origin (pca)", nothing, about_origin
    yield "PCA about the mean", mean, directions
    for power in (0.25, 0.5, 0.75):
        yield f"PCA about the mean, whitened to the power {power}", mean, directions * variances ** (-power / 2)
    yield "whitening", mean, directions * variances**-0.5


def test_scores(model: str, embedder: Remembered, text: Sequence[str], arguments: argparse.Namespace) -> Scores:
    """Average Spearman x100 of the seven test sets, by what ``fit --embedder pca`` makes of the model and every storage."""
    encoder = load_encoder(model)
    encoder.model.to(choose_device(arguments.device))  # type: ignore[arg-type]
    small = PcaEmbedder(encoder, pooling=saved_pooling(model) or "cls", dimensions=arguments.dimensions).fit(text)
    weight = small.directions_.astype(np.float64)
    ways = {"all dimensions": embedder, "pca": Mapped(embedder, "pca", np.zeros(len(weight)), weight)}
    config = EvaluationConfig(model=model, data=str(arguments.data), tasks=("sts",))
    planned, missing = plan_tasks(config)
    if missing:
        raise SystemExit("; ".join(missing.values()))
    return {
        name: {
            vectors: _average(StoredVectors(way, vectors=vectors, sentences=text), planned, config) for vectors in VECTORS
        }
        for name, way in ways.items()
    }


def _average(embedder: Embedder, planned: Any, config: EvaluationConfig) -> float:  # noqa: ANN401 - planned tasks
    rows = run_suite(embedder, planned, config)
    return next(row.value for row in rows if row.dataset == "Avg" and row.metric == "spearman")


def report(title: str, scores: Sequence[Scores]) -> None:
    """Print a table: mean and standard deviation over the models."""
    print(f"\n{title}, Spearman x100, {len(scores)} models\n\n| map | {' | '.join(VECTORS)} |\n|---|{'---|' * len(VECTORS)}")
    for name in scores[0]:
        cells = [_mean_and_spread([one[name][vectors] for one in scores]) for vectors in VECTORS]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _mean_and_spread(values: Sequence[float]) -> str:
    mean = f"{statistics.mean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean


if __name__ == "__main__":
    main()
