import numpy as np
import pytest

from selfguide.errors import InputError
from selfguide.evaluation.vectors import Vectors, in_parts
from tiny_sts import BagOfWords

SENTENCES = [f"word{number % 700} {'x ' * (number % 13)}" for number in range(2000)]


def test_each_distinct_sentence_is_embedded_once_and_found_again():
    embedder = BagOfWords()
    vectors = Vectors(embedder, iter(SENTENCES))
    assert set(embedder.seen) == set(SENTENCES)
    assert set(embedder.seen.values()) == {1}
    assert len(vectors) == len(set(SENTENCES))
    some = [SENTENCES[5], SENTENCES[1999], SENTENCES[5]]
    np.testing.assert_array_equal(vectors.of(some), embedder.encode(some))


def test_progress_is_told_to_the_end():
    told = []
    Vectors(BagOfWords(), SENTENCES, on_progress=lambda done, total: told.append((done, total)))
    total = len(set(SENTENCES))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (total, total)
    assert len(told) > 3


def test_parts_hold_sentences_of_like_length_the_longest_first():
    parts = list(in_parts(SENTENCES, lambda done, total: None))
    lengths = [len(SENTENCES[position]) for part in parts for position in part]
    assert lengths == sorted(lengths, reverse=True)
    assert sorted(position for part in parts for position in part) == list(range(len(SENTENCES)))


def test_no_sentences():
    assert len(Vectors(BagOfWords(), [])) == 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_named(value):
    class Broken(BagOfWords):
        def encode(self, sentences):
            vectors = super().encode(sentences)
            vectors[[sentence.startswith("word7 ") for sentence in sentences]] = value
            return vectors

    with pytest.raises(InputError, match=r"'bag' gives a vector with values that are not finite for: 'word7 "):
        Vectors(Broken(), SENTENCES)


@pytest.mark.parametrize("shape", [(3, 4), (2,), (2, 3, 4)])
def test_an_array_of_the_wrong_shape(shape):
    class Broken(BagOfWords):
        def encode(self, sentences):
            return np.zeros(shape, np.float32)

    with pytest.raises(InputError, match=r"'bag' gives an array of shape .* for 2 sentences; \(2, dim\) is needed"):
        Vectors(Broken(), ["a", "b"])
