import gzip
import hashlib

import numpy as np
import pytest

from selfguide.data.word_vectors import read_word_vectors
from selfguide.embedders.word_vectors import load_word_vectors
from selfguide.errors import InputError

GLOVE = "the 1 0\nDog 0 1\ndog 0 3\n. . . 5 5\nthe 9 9\n"


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def test_glove_text(write):
    path = write("glove.6B.2d.txt", GLOVE)
    vectors = read_word_vectors(path)
    assert vectors.rows == {"the": 0, "Dog": 1, "dog": 2, ". . .": 3}
    np.testing.assert_array_equal(vectors.matrix[:4], [[1, 0], [0, 1], [0, 3], [5, 5]])
    assert vectors.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("content", ["3 2\nthe 1 0 \nDog 0 1 \ncat 2 2 \n", "the 1 0\nDog 0 1\ncat 2 2"])
def test_word2vec_text_compressed_or_not(write, content):
    plain, packed = write("a.vec", content), write("a.txt.gz", gzip.compress(content.encode()))
    for path in (plain, packed):
        vectors = read_word_vectors(path)
        assert list(vectors.rows) == ["the", "Dog", "cat"]
        np.testing.assert_array_equal(vectors.matrix, [[1, 0], [0, 1], [2, 2]])


@pytest.mark.parametrize("vocabulary", ["a.vocab", "vocab.txt"])
def test_matrix_with_vocabulary(write, tmp_path, vocabulary):
    np.save(tmp_path / "a.npy", np.array([[1, 2], [3, 4]], dtype=np.float16))
    write(vocabulary, "the\ndog\n")
    vectors = read_word_vectors(tmp_path / "a.npy")
    assert vectors.rows == {"the": 0, "dog": 1}
    np.testing.assert_array_equal(vectors.matrix, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("the 1 0\ndog 1\n", r"a.txt:2: a word and 2 numbers are needed; number of fields is 2"),
        ("the 1 0\ndog x 1\n", r"a.txt:2: not a word and 2 numbers"),
        ("the 1 0\ndog nan 1\n", r"a.txt:2: a number is not finite"),
        ("the 1 0\n\n", r"a.txt:2: a word and 2 numbers are needed"),
        ("the\n", r"a.txt:1: a word and 1 numbers are needed"),
        ("3 2\nthe 1 0\n", r"a.txt:1: 3 words were promised, 1 are there"),
        ("", r"a.txt holds no word vectors"),
    ],
)
def test_broken_text(write, content, words):
    with pytest.raises(InputError, match=words):
        read_word_vectors(write("a.txt", content))


@pytest.mark.parametrize(
    ("matrix", "vocabulary", "words"),
    [
        (np.zeros((2, 3)), None, r"a.npy: the words of its rows are missing; looked for .*a.vocab and .*vocab.txt"),
        (np.zeros((2, 3)), "the\n", r"a.npy has 2 rows, and .*a.vocab 1 words"),
        (np.zeros(3), "a\nb\nc\n", r"a.npy: shape \(3,\)"),
        (np.zeros((1, 3), dtype=int), "the\n", r"a matrix \(words, dim\) of floats"),
        (np.full((1, 3), np.inf), "the\n", r"row 1 holds a number that is not finite"),
        (np.array([["a"]], dtype=object), "the\n", r"a.npy: not a whole .npy file"),
    ],
)
def test_broken_matrix(write, tmp_path, matrix, vocabulary, words):
    np.save(tmp_path / "a.npy", matrix)
    if vocabulary is not None:
        write("a.vocab", vocabulary)
    with pytest.raises(InputError, match=words):
        read_word_vectors(tmp_path / "a.npy")


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_word_vectors(tmp_path / "none.txt")


def test_means_of_known_words_with_lower_case_as_second_choice(write):
    embedder = load_word_vectors(write("glove.6B.txt", GLOVE))
    vectors = embedder.encode(["The dog, zebra!", "Dog dog", "THE", "zebra", ""])
    np.testing.assert_allclose(vectors, [[0.5, 1.5], [0, 2], [1, 0], [0, 0], [0, 0]])
    assert embedder.unknown_sentences == 2
    assert embedder.name == "glove/word-mean"
