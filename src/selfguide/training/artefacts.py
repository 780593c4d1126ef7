"""What a run shows beside numbers: nearest neighbours of some sentences, and a map of some, before and after training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from selfguide.data.pairs import ScoredPairs
from selfguide.data.texts import Texts
from selfguide.embedders.protocol import Embedder
from selfguide.files import write_json

POOL = 120
"""Sentences of the training text among which neighbours are looked for: few, so that a look costs about two steps."""
SHOWN = 6
"""Sentences whose neighbours are told."""
NEAREST = 3
MAPPED = 60
"""Single sentences on a map."""
MAPPED_PAIRS = 15
"""Pairs of each kind on a map, where there are graded pairs."""

Vectors = npt.NDArray[np.float64]


@final
class Artefacts:
    """What an embedder made of some sentences before training, to be shown beside what it makes of them afterwards."""

    def __init__(self, embedder: Embedder, sentences: Texts, pairs: ScoredPairs | None = None) -> None:
        self.pool = list(dict.fromkeys(sentences[position] for position in evenly(len(sentences), POOL)))
        self.groups = _extremes(pairs) if pairs else [("sentence", [self.pool[n]]) for n in evenly(len(self.pool), MAPPED)]
        self._before = self._look(embedder)

    def write(self, record: Path, embedder: Embedder) -> None:
        """Write ``neighbours.json`` and ``map.json``: what was to be seen before, and what is now."""
        sides = {"before": self._before, "after": self._look(embedder)}
        shown = evenly(len(self.pool), SHOWN)
        near = {side: nearest(vectors, shown, NEAREST) for side, (vectors, _) in sides.items()}
        neighbours = {
            self.pool[position]: {side: [self.pool[other] for other in found[n]] for side, found in near.items()}
            for n, position in enumerate(shown)
        }
        write_json(record / "neighbours.json", neighbours)
        write_json(record / "map.json", {side: self._map(vectors) for side, (_, vectors) in sides.items()})

    def _look(self, embedder: Embedder) -> tuple[Vectors, Vectors]:
        """Unit vectors of the pool and of what is mapped, each ``(n, dim)``."""
        mapped = [text for _, texts in self.groups for text in texts]
        vectors = unit(embedder.encode([*self.pool, *mapped]))
        return vectors[: len(self.pool)], vectors[len(self.pool) :]

    def _map(self, vectors: Vectors) -> list[dict[str, Any]]:
        """Groups of sentences with their points; those of a pair with their cosine."""
        points, place, groups = in_a_plane(vectors), 0, []
        for kind, texts in self.groups:
            own = slice(place, place + len(texts))
            place += len(texts)
            cosine = round(float(vectors[own][0] @ vectors[own][1]), 4) if len(texts) > 1 else None
            groups.append({"kind": kind, "cosine": cosine, "sentences": texts, "points": np.round(points[own], 4).tolist()})
        return groups


def unit(vectors: npt.NDArray[np.floating[Any]]) -> Vectors:
    """Vectors of length 1; what a diverged encoder gives, which is no number, becomes 0."""
    wide = np.nan_to_num(vectors.astype(np.float64))
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    found: Vectors = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    return found


def nearest(vectors: Vectors, positions: Sequence[int], count: int) -> list[list[int]]:
    """For each of some unit vectors ``(n, dim)``, the positions of the nearest others, nearest first."""
    cosines = vectors[list(positions)] @ vectors.T
    cosines[range(len(positions)), list(positions)] = -2
    found: list[list[int]] = np.argsort(-cosines, axis=1, kind="stable")[:, : min(count, len(vectors) - 1)].tolist()
    return found


def in_a_plane(vectors: Vectors) -> Vectors:
    """Coordinates ``(n, 2)`` along the two directions in which vectors differ most; the signs are arbitrary."""
    left, scales, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    points = np.zeros((len(vectors), 2))
    points[:, : len(scales)] = left[:, :2] * scales[:2]  # a single vector has one direction
    return points


def evenly(length: int, count: int) -> list[int]:
    """At most so many positions, at equal distances."""
    return [position * length // count for position in range(count)] if length > count else list(range(length))


def _extremes(pairs: ScoredPairs) -> list[tuple[str, list[str]]]:
    """The pairs that people found most alike, and least."""
    order = sorted(range(len(pairs)), key=lambda position: pairs.scores[position])
    count = min(MAPPED_PAIRS, max(1, len(pairs) // 2))
    chosen = [("alike", order[-count:]), ("not alike", order[:count])]
    return [(kind, [pairs.sentences1[n], pairs.sentences2[n]]) for kind, positions in chosen for n in positions]
