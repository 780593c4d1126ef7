"""The bundled sentences and pairs: enough, varied, graded over the range, and nobody else's."""

import re
from collections import Counter

import pytest

from selfguide import bundled
from selfguide.data.pairs import read_pairs
from selfguide.data.sentences import read_sentences


def words(sentence: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z0-9]+", sentence.lower()))


def overlap(left: str, right: str) -> float:
    a, b = set(words(left)), set(words(right))
    return len(a & b) / len(a | b)


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    return list(read_sentences(bundled.SENTENCES))


@pytest.fixture(scope="module")
def pair_sentences() -> list[str]:
    return [s for path in (bundled.DEV_PAIRS, bundled.TEST_PAIRS) for s in _both_sides(read_pairs(path))]


def _both_sides(pairs):
    return [*pairs.sentences1, *pairs.sentences2]


def test_there_are_enough_and_none_twice(sentences):
    assert len(sentences) >= 1200
    assert len({words(sentence) for sentence in sentences}) == len(sentences)
    assert 8 < sum(len(words(sentence)) for sentence in sentences) / len(sentences) < 20


def test_sentences_are_written_one_by_one_not_by_template(sentences):
    """No opening of three words is shared by more than two in a hundred sentences."""
    openings = Counter(words(sentence)[:3] for sentence in sentences)
    assert max(openings.values()) <= len(sentences) // 50


@pytest.mark.parametrize("path", [bundled.DEV_PAIRS, bundled.TEST_PAIRS])
def test_pairs_are_spread_over_the_scale(path):
    pairs = read_pairs(path)
    assert len(pairs) >= 120
    assert all(0 <= score <= 5 for score in pairs.scores)
    counts = Counter(min(4, int(score)) for score in pairs.scores)
    assert set(counts) == {0, 1, 2, 3, 4} and min(counts.values()) >= 0.08 * len(pairs)


def test_dev_and_test_share_no_sentence(pair_sentences):
    assert len({words(sentence) for sentence in pair_sentences}) == len(pair_sentences)


def test_no_pair_is_a_near_copy_of_a_training_sentence(sentences, pair_sentences):
    assert max(overlap(own, seen) for own in pair_sentences for seen in sentences) < 0.5


def test_nothing_is_in_the_evaluation_data(sentences, pair_sentences, shared):
    files = [
        path for path in (shared / "data").rglob("*") if path.suffix in (".tsv", ".txt") and "licenses" not in path.parts
    ]
    assert files
    foreign = {words(field) for path in files for field in re.split(r"[\t\n]", path.read_text("utf-8"))}
    assert not [sentence for sentence in [*sentences, *pair_sentences] if words(sentence) in foreign]


def test_the_near_copy_measure_bites():
    assert overlap("A goat stands on the roof of a car.", "A goat stands on the roof of an old car.") > 0.5
