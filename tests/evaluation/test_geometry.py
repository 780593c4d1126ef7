import itertools
import math

import numpy as np
import pytest

from selfguide.data.digests import Pair
from selfguide.data.sts import StsData
from selfguide.errors import InputError
from selfguide.evaluation.geometry import METRICS, GeometryTask, mean_pairwise_cosine, partition_isotropy
from selfguide.evaluation.vectors import Vectors
from tiny_sts import BagOfWords

PAIRS = (Pair(5, "the cat", "the dog"), Pair(4, "the dog", "a dog"), Pair(3.9, "a man", "the house"), Pair(0, "a", "river"))


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(40, 6)) + 1


def unit(vector):
    return vector / np.linalg.norm(vector)


def test_measures_against_loops():
    task = GeometryTask(StsData("STS-B", "test", (PAIRS,), revision="r", source="files", text="raw"))
    embedder = BagOfWords()
    found = {score.metric: score for score in task.score(Vectors(embedder, task.sentences()), seed=0)}
    assert tuple(found) == METRICS
    vector = {sentence: unit(embedder.encode([sentence])[0].astype(float)) for pair in PAIRS for sentence in pair[1:]}
    near = [np.sum((vector[pair.sentence1] - vector[pair.sentence2]) ** 2) for pair in PAIRS[:2]]
    assert found["alignment"].value == pytest.approx(np.mean(near))
    couples = list(itertools.combinations(vector.values(), 2))
    potentials = [math.exp(-2 * np.sum((left - right) ** 2)) for left, right in couples]
    assert found["uniformity"].value == pytest.approx(math.log(np.mean(potentials)))
    assert found["mean_cosine"].value == pytest.approx(np.mean([left @ right for left, right in couples]))
    assert found["alignment"].protocol["positive_pairs"] == 2
    assert found["alignment"].protocol["sentences"] == len(vector) == 7


def test_mean_cosine_at_its_ends(vectors):
    assert mean_pairwise_cosine(np.eye(5)) == pytest.approx(0)
    assert mean_pairwise_cosine(np.ones((5, 3))) == pytest.approx(1)


def test_partition_isotropy_against_loops(vectors):
    _, eigenvectors = np.linalg.eigh(vectors.T @ vectors)
    sums = [sum(math.exp(sign * c @ w) for w in vectors) for c in eigenvectors.T for sign in (1, -1)]
    assert partition_isotropy(vectors) == pytest.approx(min(sums) / max(sums))


def test_partition_isotropy_at_its_ends(vectors):
    assert partition_isotropy(np.concatenate([np.eye(5), -np.eye(5)])) == pytest.approx(1)
    assert partition_isotropy(np.full((9, 4), 500.0)) == pytest.approx(0)  # no overflow


def test_no_positive_pair():
    task = GeometryTask(StsData("STS-B", "test", (PAIRS[2:],), revision="r", source="files", text="raw"))
    with pytest.raises(InputError, match="STS-B has no pair with a score of 4 or more"):
        task.score(Vectors(BagOfWords(), task.sentences()), seed=0)
