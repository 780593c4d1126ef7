"""Similarities and monitors against loops, the rank correlation against scipy, and the bootstrap interval."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from selfguide.errors import InputError
from selfguide.similarity import (
    alignment,
    bootstrap_interval,
    in_batch_accuracy,
    paired_cosines,
    pearson,
    spearman,
    spread,
    uniformity,
)

both_dtypes = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-12)], ids=str)


def vectors(seed, dtype=torch.float64, rows=6, dim=4):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def unit(row):
    length = math.sqrt(sum(x * x for x in row))
    return [x / length for x in row]


def squared_distance(u, v):
    return sum((a - b) ** 2 for a, b in zip(u, v, strict=True))


# Monitors


@both_dtypes
def test_paired_cosines_equal_a_loop(dtype, tolerance):
    left, right = vectors(1, dtype), vectors(2, dtype)
    result = paired_cosines(left.numpy(), right.numpy())
    assert result.shape == (6,)
    for cosine, u, v in zip(result.tolist(), left.tolist(), right.tolist(), strict=True):
        expected = sum(a * b for a, b in zip(unit(u), unit(v), strict=True))
        assert cosine == pytest.approx(expected, abs=tolerance)


def test_a_zero_vector_has_cosine_0_and_what_is_not_finite_shows():
    left = np.array([[1, 2], [0, 0], [np.nan, 1]], np.float32)
    right = np.array([[0, 0], [3, 4], [1, 1]], np.float32)
    np.testing.assert_array_equal(paired_cosines(left, right), [0, 0, np.nan])


@both_dtypes
def test_alignment_equals_loop(dtype, tolerance):
    left, right = vectors(1, dtype), vectors(2, dtype)
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    expected = sum(squared_distance(unit(u), unit(v)) for u, v in pairs) / 6
    assert alignment(left, right).item() == pytest.approx(expected, rel=tolerance)


@both_dtypes
def test_uniformity_equals_loop(dtype, tolerance):
    rows = [unit(row) for row in vectors(1, dtype).tolist()]
    potentials = []
    for i, u in enumerate(rows):
        for j, v in enumerate(rows):
            if i < j:
                potentials.append(math.exp(-2 * squared_distance(u, v)))
    expected = math.log(sum(potentials) / len(potentials))
    assert uniformity(vectors(1, dtype)).item() == pytest.approx(expected, abs=2 * tolerance)


@both_dtypes
def test_spread_equals_loop(dtype, tolerance):
    rows = [unit(row) for row in vectors(1, dtype).tolist()]
    centre = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    expected = math.sqrt(sum(squared_distance(row, centre) for row in rows) / len(rows))
    assert spread(vectors(1, dtype)).item() == pytest.approx(expected, rel=tolerance)


def test_monitors_of_collapsed_vectors():
    collapsed = vectors(1)[:1] * torch.tensor([[1.0], [2.0], [5.0]], dtype=torch.float64)
    assert uniformity(collapsed).item() == pytest.approx(0, abs=1e-12)
    assert spread(collapsed).item() == pytest.approx(0, abs=1e-7)
    assert alignment(collapsed, collapsed.flip(0)).item() == pytest.approx(0, abs=1e-12)


def test_monitors_of_unrelated_vectors_in_many_dimensions():
    left, right = vectors(1, rows=200, dim=2000), vectors(2, rows=200, dim=2000)
    assert uniformity(left).item() == pytest.approx(-4, abs=0.02)
    assert spread(left).item() == pytest.approx(1, abs=0.01)
    assert alignment(left, right).item() == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("monitor", [uniformity, spread, lambda x: alignment(x, vectors(2))])
def test_lengths_of_the_vectors_do_not_matter(monitor):
    lengths = torch.tensor([[0.1], [1], [2], [3], [40], [5]])
    torch.testing.assert_close(monitor(vectors(1) * lengths), monitor(vectors(1)))


# In-batch accuracy


def accuracy_loop(similarities, negatives):
    batch, layers = len(similarities), len(similarities[0][0])
    right = 0
    for i in range(batch):
        for k in range(layers):
            rivals = [similarities[i][j][n] for j in range(batch) if negatives[i][j] for n in range(layers)]
            right += all(similarities[i][i][k] > rival for rival in rivals)
    return right / (batch * layers)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("share_of_negatives", [1.0, 0.4, 0.0])
def test_in_batch_accuracy_equals_loop(layers, share_of_negatives):
    generator = torch.Generator().manual_seed(9)
    found = set()
    for _ in range(20):
        similarities = torch.rand(4, 4, layers, generator=generator)
        similarities.diagonal(dim1=0, dim2=1).add_(0.4)
        negatives = (torch.rand(4, 4, generator=generator) < share_of_negatives) & ~torch.eye(4, dtype=torch.bool)
        result = in_batch_accuracy(similarities, negatives).item()
        assert result == pytest.approx(accuracy_loop(similarities.tolist(), negatives.tolist()))
        found.add(result)
    assert len(found) > 2 if share_of_negatives else found == {1.0}


def test_in_batch_accuracy_of_a_tie_is_wrong():
    negatives = ~torch.eye(3, dtype=torch.bool)
    assert in_batch_accuracy(torch.ones(3, 3, 2), negatives) == 0
    assert in_batch_accuracy(torch.eye(3).unsqueeze(-1) - 5, negatives) == 1


# Spearman


@pytest.mark.parametrize("size", [2, 3, 50])
@pytest.mark.parametrize("levels", [None, 4], ids=["no_ties", "ties"])
def test_spearman_equals_scipy(size, levels):
    rng = np.random.default_rng(size)
    for _ in range(10):
        gold, noise = rng.normal(size=(2, size))
        predicted = gold + noise
        if levels:
            gold, predicted = (np.round(x * levels / 2) for x in (gold, predicted))
        if np.ptp(gold) and np.ptp(predicted):
            expected = scipy.stats.spearmanr(predicted, gold).statistic
            assert spearman(predicted, gold) == pytest.approx(100 * expected, abs=1e-9)


def test_pearson_equals_scipy():
    rng = np.random.default_rng(3)
    predicted, gold = rng.normal(size=50), rng.integers(0, 6, size=50)
    assert pearson(predicted, gold) == pytest.approx(100 * scipy.stats.pearsonr(predicted, gold).statistic)
    assert pearson([1, 2, 4], [10, 20, 40]) == pytest.approx(100)
    with pytest.raises(InputError, match="the gold scores are all equal"):
        pearson(predicted, np.ones(50))


def test_spearman_with_ties_by_hand():
    # ranks 1.5 1.5 3 4 against 1 2 3.5 3.5
    expected = 100 * 4 / 4.5
    assert spearman([0, 0, 1, 5], [1, 2, 4, 4]) == pytest.approx(expected)


def test_spearman_of_ranks_only():
    gold = [0.0, 1.0, 2.5, 3.0]
    assert spearman([1, 10, 100, 1e9], gold) == pytest.approx(100)
    assert spearman(torch.tensor([4.0, 3.0, 2.0, 1.0]), gold) == pytest.approx(-100)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_spearman_refuses_values_that_are_not_finite(value):
    with pytest.raises(InputError, match=rf"the predicted scores .* not finite \({value} at position 2\)"):
        spearman([1, value, 3], [1, 2, 3])
    with pytest.raises(InputError, match=rf"the gold scores .* not finite \({value} at position 3\)"):
        spearman([1, 2, 3], [1, 2, value])


def test_spearman_refuses_constant_scores():
    with pytest.raises(InputError, match=r"the predicted scores are all equal \(3 of them\)"):
        spearman([0.3, 0.3, 0.3], [1, 2, 3])
    with pytest.raises(InputError, match=r"the gold scores are all equal \(3 of them\)"):
        spearman([1, 2, 3], [0, 0, 0])


@pytest.mark.parametrize("values", [[], [1.0]], ids=["none", "one"])
def test_spearman_refuses_fewer_than_two(values):
    with pytest.raises(InputError, match=rf"the predicted scores are all equal \({len(values)} of them\)"):
        spearman(values, values)


# Bootstrap


def scored_pairs(size, noise=0.7, seed=0):
    gold, errors = np.random.default_rng(seed).normal(size=(2, size))
    return gold + noise * errors, gold


def width(interval):
    low, high = interval
    return high - low


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_interval_holds_the_point_estimate(seed):
    predicted, gold = scored_pairs(100, seed=seed)
    low, high = bootstrap_interval(predicted, gold, draws=300)
    assert -100 < low < spearman(predicted, gold) < high < 100


def test_interval_is_that_of_scipy():
    predicted, gold = scored_pairs(100)
    theirs = scipy.stats.bootstrap(
        (predicted, gold),
        lambda x, y: 100 * scipy.stats.spearmanr(x, y).statistic,
        paired=True,
        vectorized=False,
        method="percentile",
        confidence_level=0.95,
        n_resamples=1000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    low, high = bootstrap_interval(predicted, gold, draws=1000)
    assert low == pytest.approx(theirs.low, abs=0.04 * width(theirs))
    assert high == pytest.approx(theirs.high, abs=0.04 * width(theirs))


def test_interval_depends_on_the_seed_alone():
    predicted, gold = scored_pairs(50)
    np.random.seed(1)
    first = bootstrap_interval(predicted, gold, draws=200)
    np.random.seed(2)
    assert bootstrap_interval(predicted, gold, draws=200) == first
    assert bootstrap_interval(predicted, gold, draws=200, seed=0) == first
    assert bootstrap_interval(predicted, gold, draws=200, seed=1) != first


def test_interval_narrows_with_more_pairs():
    predicted, gold = scored_pairs(40)
    small = bootstrap_interval(predicted, gold, draws=300)
    large = bootstrap_interval(np.tile(predicted, 16), np.tile(gold, 16), draws=300)
    assert width(small) / width(large) == pytest.approx(4, rel=0.25)  # the square root of 16


def test_interval_of_a_perfect_score_is_a_point():
    _, gold = scored_pairs(30)
    assert bootstrap_interval(gold, gold, draws=50) == pytest.approx((100, 100))


@pytest.mark.parametrize(
    ("predicted", "gold"),
    [([1, 2, 3, 4, 5], [1, 3, 2, 5, 4]), (range(20), [0] * 18 + [1] * 2)],
    ids=["few_pairs", "many_ties"],
)
def test_interval_where_some_resamples_have_no_correlation(predicted, gold):
    low, high = bootstrap_interval(predicted, gold, draws=500)
    assert -100 <= low < spearman(predicted, gold) < high <= 100


def test_gain_over_itself_is_zero():
    predicted, gold = scored_pairs(50)
    assert bootstrap_interval(predicted, gold, other=predicted, draws=50) == (0, 0)


def test_gain_holds_the_difference_of_the_scores():
    predicted, gold = scored_pairs(200, noise=0.5)
    other = predicted + 0.5 * np.random.default_rng(8).normal(size=200)
    low, high = bootstrap_interval(predicted, gold, other=other, draws=300)
    assert 0 < low < spearman(predicted, gold) - spearman(other, gold) < high
    reverse_low, reverse_high = bootstrap_interval(other, gold, other=predicted, draws=300)
    assert (low, high) == pytest.approx((-reverse_high, -reverse_low))


def test_gain_compares_on_the_same_resampled_pairs():
    predicted, gold = scored_pairs(100)
    other = predicted + 0.05 * np.random.default_rng(8).normal(size=100)
    gain = bootstrap_interval(predicted, gold, other=other, draws=200)
    assert width(gain) < width(bootstrap_interval(predicted, gold, draws=200)) / 4
