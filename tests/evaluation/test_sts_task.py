import numpy as np
import pytest
from scipy import stats

from selfguide.data.digests import Pair
from selfguide.data.sts import StsData
from selfguide.errors import InputError
from selfguide.evaluation.sts import StsTask
from selfguide.evaluation.vectors import Vectors

SIZES = (30, 50)


class Lookup:
    """Embeds the sentence ``7`` as row 7 of a matrix."""

    name, protocol = "lookup", {}

    def __init__(self, matrix):
        self.matrix = np.asarray(matrix, dtype=np.float32)

    def encode(self, sentences):
        return self.matrix[[int(sentence) for sentence in sentences]]


@pytest.fixture
def matrix():
    return np.random.default_rng(0).normal(size=(2 * sum(SIZES), 8))


@pytest.fixture
def data():
    gold = np.random.default_rng(1).integers(0, 6, size=sum(SIZES))
    pairs = [Pair(float(score), str(2 * number), str(2 * number + 1)) for number, score in enumerate(gold)]
    subsets = (tuple(pairs[: SIZES[0]]), tuple(pairs[SIZES[0] :]))
    return StsData("STS99", "test", subsets, revision="r", source="files", text="raw")


def scores(data, matrix, aggregation="all"):
    task = StsTask(data, aggregation=aggregation)
    return {score.metric: score for score in task.score(Vectors(Lookup(matrix), task.sentences()), seed=0)}


def cosine(left, right):
    squares = sum(a * a for a in left) * sum(b * b for b in right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / squares**0.5


def by_hand(data, matrix, correlate):
    """The correlation in each subset and in all, from plain loops and scipy."""
    values = []
    for pairs in (*data.subsets, data.pairs):
        cosines = [cosine(matrix[int(pair.sentence1)], matrix[int(pair.sentence2)]) for pair in pairs]
        values.append(100 * correlate(cosines, [pair.score for pair in pairs]).statistic)
    return values


@pytest.mark.parametrize(("metric", "correlate"), [("spearman", stats.spearmanr), ("pearson", stats.pearsonr)])
def test_aggregations(data, matrix, metric, correlate):
    first, second, together = by_hand(data, matrix, correlate)
    assert scores(data, matrix)[metric].value == pytest.approx(together, abs=1e-5)
    assert scores(data, matrix, "mean")[metric].value == pytest.approx((first + second) / 2, abs=1e-5)
    weighted = (SIZES[0] * first + SIZES[1] * second) / sum(SIZES)
    assert scores(data, matrix, "wmean")[metric].value == pytest.approx(weighted, abs=1e-5)
    assert len({round(value, 3) for value in (together, (first + second) / 2, weighted)}) == 3


def test_what_a_score_says_of_itself(data, matrix):
    score = scores(data, matrix, "wmean")["pearson"]
    assert (score.dataset, score.split, score.revision) == ("STS99", "test", "r")
    assert score.protocol == {"similarity": "cosine", "aggregation": "wmean", "text": "raw", "source": "files", "pairs": 80}


def test_the_length_of_vectors_does_not_matter(data, matrix):
    lengths = np.random.default_rng(2).uniform(0.1, 10, size=(len(matrix), 1))
    assert scores(data, matrix * lengths)["spearman"].value == pytest.approx(scores(data, matrix)["spearman"].value)


def test_a_zero_vector_counts_as_unrelated_and_is_told(data, matrix, caplog):
    matrix[[3, 8]] = 0
    found = scores(data, matrix)["spearman"]
    assert found.protocol["zero_vectors"] == 2
    assert "STS99: 2 sentences have the zero vector; its cosine counts as 0" in caplog.text


@pytest.mark.parametrize("noise", [0, 1e-7])
def test_constant_vectors_have_no_score(data, matrix, noise):
    constant = np.ones_like(matrix) + noise * matrix
    with pytest.raises(InputError, match=r"'lookup' gives the same cosine .* for all 80 pairs of STS99: its vectors are"):
        scores(data, constant)
    with pytest.raises(InputError, match=r"the same cosine \(0.000000\)"):
        scores(data, np.zeros_like(matrix))


def test_a_constant_subset_has_no_score_of_its_own(data, matrix):
    matrix[: 2 * SIZES[0]] = 1
    assert np.isfinite(scores(data, matrix)["spearman"].value)
    with pytest.raises(InputError, match="for all 30 pairs of STS99"):
        scores(data, matrix, "mean")


def test_unknown_aggregation(data):
    with pytest.raises(InputError, match="aggregation 'sum' is not known; choose one of: all, mean, wmean"):
        StsTask(data, aggregation="sum")
