import gzip
import hashlib
import json
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

import selfguide
from selfguide.data import word_vectors
from selfguide.data.word_vectors import WordVectors, read_word_vectors
from selfguide.embedders.word_vectors import WordVectorEmbedder, load_word_vectors
from selfguide.errors import InputError

MANY = "".join(f"word{number} {number} {-number}\n" for number in range(300))
"""More lines than are parsed at once."""
GLOVE = "the 1 0\nDog 0 1\ndog 0 3\n. . . 5 5\nthe 9 9\n"


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, which every text file goes by way of."""
    monkeypatch.setenv("SELFGUIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(word_vectors, "IN_MEMORY_BYTES", 0)
    return tmp_path / "cache" / "word_vectors"


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
        ("the 1 0\ndog -inf 1\n", r"a.txt:2: a number is not finite"),
        ("the 1 0\ndog 1e39 1\n", r"a.txt:2: a number is not finite"),
        (MANY + "dog 1\n" + MANY, r"a.txt:301: a word and 2 numbers are needed; number of fields is 2"),
        (MANY + "dog 1 x\n" + MANY, r"a.txt:301: not a word and 2 numbers"),
        (MANY + "dog 1 nan\n" + MANY, r"a.txt:301: a number is not finite"),
        ("601 2\n" + MANY + "dog 1\n" + MANY, r"a.txt:302: a word and 2 numbers are needed"),
        ("599 2\n" + MANY + MANY, r"a.txt:1: 599 words were promised, 600 are there"),
        ("1 3\nthe 1 0\n", r"a.txt:2: a word and 3 numbers are needed; number of fields is 3"),
        ("the 1 0\n\n", r"a.txt:2: a word and 2 numbers are needed"),
        ("the\n", r"a.txt:1: a word and 1 numbers are needed"),
        ("3 2\nthe 1 0\n", r"a.txt:1: 3 words were promised, 1 are there"),
        ("", r"a.txt holds no word vectors"),
    ],
)
def test_broken_text(write, content, words):
    with pytest.raises(InputError, match=words):
        read_word_vectors(write("a.txt", content))


@pytest.mark.parametrize("content", ["the 1 0\ndog 1\n", "the 1 0\ndog x 1\n", "3 2\nthe 1 0\n"])
def test_broken_text_leaves_no_matrix(write, cache, content):
    with pytest.raises(InputError, match=r"a.txt:\d: "):
        read_word_vectors(write("a.txt", content))
    assert list(cache.iterdir()) == []


def test_the_first_vector_of_a_word_wins_also_where_lines_are_far_apart(write):
    vectors = read_word_vectors(write("a.txt", MANY + "word7 0 0\nat a@b.c 1 2\nword7 1 1\n"))
    np.testing.assert_array_equal(vectors.matrix[vectors.rows["word7"]], [7, -7])
    np.testing.assert_array_equal(vectors.matrix[vectors.rows["at a@b.c"]], [1, 2])
    assert len(vectors.rows) == 301


def test_words_that_are_not_utf8_are_told(write, caplog):
    vectors = read_word_vectors(write("a.txt", "the 1 0\ncafé 2 2\nnoël 3 3\ncaf\u0085 4 4\n".encode("latin-1")))
    assert list(vectors.rows) == ["the", "caf\ufffd", "no\ufffdl"]
    assert "a.txt: 3 words are not UTF-8, and no sentence will match them" in caplog.text


def test_words_that_only_look_like_line_ends(write):
    vectors = read_word_vectors(write("a.txt", "a\u0085b 1 0\n\u00a0 2 2\n\u2028 3 3\n"))
    assert list(vectors.rows) == ["a\u0085b", "\u00a0", "\u2028"]


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


def test_a_row_far_down_that_is_not_finite(write, tmp_path):
    matrix = np.zeros((5000, 2))
    matrix[4321, 1] = 1e39  # too big in single precision only
    np.save(tmp_path / "a.npy", matrix)
    write("a.vocab", "".join(f"word{number}\n" for number in range(5000)))
    with pytest.raises(InputError, match=r"a.npy: row 4322 holds a number that is not finite"):
        read_word_vectors(tmp_path / "a.npy")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04"])
def test_a_matrix_that_is_none(write, content):
    write("a.vocab", "the\n")
    with pytest.raises(InputError, match=r"a.npy: not a whole .npy file"):
        read_word_vectors(write("a.npy", content))


def test_half_a_matrix(write, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 500)))
    write("a.vocab", "the\ndog\n")
    write("a.npy", (tmp_path / "a.npy").read_bytes()[:5000])
    with pytest.raises(InputError, match=r"a.npy: not a whole .npy file"):
        read_word_vectors(tmp_path / "a.npy")


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_word_vectors(tmp_path / "none.txt")


@pytest.mark.parametrize("name", ["GoogleNews.bin", "GoogleNews.bin.gz"])
def test_a_binary_file(write, name):
    with pytest.raises(InputError, match="binary word vectors are not read; save them as text"):
        read_word_vectors(write(name, b"1 2\nthe \0\0\0\0\0\0\0\0"))


def test_a_matrix_stays_on_the_disk(write, tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray([[1, 2], [3, 4], [5, 7]], dtype=np.float16))
    write("a.vocab", "the\ndog\ncat\n")
    embedder = load_word_vectors(tmp_path / "a.npy")
    assert isinstance(embedder.vectors.matrix, np.memmap)
    np.testing.assert_array_equal(embedder.encode(["the cat"]), [[3, 4.5]])


@pytest.mark.parametrize("content", [GLOVE, MANY, "2 1\nthe 1 \ndog 2 \n"])
def test_a_big_text_file_becomes_a_matrix_once(write, cache, content, monkeypatch):
    path = write("a.txt", content)
    first = read_word_vectors(path)
    monkeypatch.setattr(word_vectors, "read_blocks", None)
    again = read_word_vectors(path)
    monkeypatch.undo()
    plain = read_word_vectors(path)
    for vectors in (first, again):
        assert isinstance(vectors.matrix, np.memmap)
        np.testing.assert_array_equal(vectors.matrix, plain.matrix)
        assert vectors.matrix.dtype == plain.matrix.dtype
        assert (vectors.rows, vectors.sha256) == (plain.rows, plain.sha256)


def test_a_big_text_file_that_changed(write, cache):
    path = write("a.txt", "the 1 0\n")
    read_word_vectors(path)
    write("a.txt", "cat 3 2\n")
    os.utime(path, (1, 1))
    vectors = read_word_vectors(path)
    assert list(vectors.rows) == ["cat"]
    assert vectors.sha256 == hashlib.sha256(b"cat 3 2\n").hexdigest()
    assert len(list(cache.iterdir())) == 1


def test_a_cache_that_cannot_be_made(write, tmp_path, cache, monkeypatch):
    monkeypatch.setenv("SELFGUIDE_CACHE", str(write("file", "")))
    with pytest.raises(InputError, match=r"the cache '.*' cannot be made .*; name another folder with SELFGUIDE_CACHE"):
        read_word_vectors(write("a.txt", GLOVE))


def test_a_record_of_another_version_is_replaced(write, cache):
    path = write("a.txt", GLOVE)
    read_word_vectors(path)
    (record,) = cache.glob("*/word_vectors.json")
    record.write_text("{}")
    assert len(read_word_vectors(path).rows) == 4
    assert json.loads(record.read_text())["source"] == str(path)


def test_a_big_text_file_is_never_in_memory(write, tmp_path, cache, monkeypatch):
    """All that is allocated meanwhile, by Python and numpy, against the size of the matrix."""
    numbers = " ".join(f"{number / 300:.5f}" for number in range(300))
    path = write("a.txt", "".join(f"w{number} {numbers}\n" for number in range(10_000)))
    matrix_bytes = 10_000 * 300 * 4

    def peak():
        tracemalloc.start()
        try:
            read_word_vectors(path)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak() < matrix_bytes / 3
    assert peak() < matrix_bytes / 3  # from the cache
    monkeypatch.setattr(word_vectors, "IN_MEMORY_BYTES", 2**40)
    assert peak() > matrix_bytes  # what is measured would have shown it


def test_means_of_known_words_with_lower_case_as_second_choice(write, caplog):
    embedder = load_word_vectors(write("glove.6B.txt", GLOVE))
    caplog.set_level("INFO")
    vectors = embedder.encode(["The dog, zebra!", "Dog dog", "THE", "zebra", ""])
    np.testing.assert_allclose(vectors, [[0.5, 1.5], [0, 2], [1, 0], [0, 0], [0, 0]])
    assert "glove/word-mean: 2 of 5 sentences have no known word; their vector is 0" in caplog.text
    assert embedder.name == "glove/word-mean"


@pytest.fixture(params=["text", "big text", "matrix"])
def embedder(request, write, tmp_path):
    """Of a file of each kind."""
    match request.param:
        case "text":
            return load_word_vectors(write("a.txt", GLOVE))
        case "big text":
            request.getfixturevalue("cache")
            return load_word_vectors(write("a.txt", GLOVE))
    np.save(tmp_path / "a.npy", np.array([[1, 0.1], [3, 4], [5, 6]]))
    write("a.vocab", "the\ndog\nthe\n")
    return load_word_vectors(tmp_path / "a.npy")


def test_saved_and_loaded(embedder, tmp_path):
    embedder.save(tmp_path / "deep" / "saved")
    loaded = selfguide.load(tmp_path / "deep" / "saved")
    assert isinstance(loaded, WordVectorEmbedder)
    assert (loaded.name, loaded.protocol) == (embedder.name, embedder.protocol)
    assert list(loaded.vectors.rows) == list(embedder.vectors.rows)
    sentences = ["The dog", "the", "zebra"]
    np.testing.assert_array_equal(loaded.encode(sentences), embedder.encode(sentences))
    loaded.save(tmp_path / "deep" / "saved")
    np.testing.assert_array_equal(selfguide.load(tmp_path / "deep" / "saved").encode(sentences), embedder.encode(sentences))


def test_scikit_learn(embedder):
    copy = clone(embedder)
    assert copy is not embedder
    assert copy.get_params() == embedder.get_params() == {"vectors": embedder.vectors, "name": embedder.name}
    for other in (copy, pickle.loads(pickle.dumps(embedder))):
        np.testing.assert_array_equal(other.fit(["x"]).transform(["The dog"]), embedder.encode(["The dog"]))


def test_a_saved_folder_that_was_changed(embedder, tmp_path):
    embedder.save(tmp_path / "saved")
    np.save(tmp_path / "saved" / "word_vectors.npy", np.zeros((4, 2), dtype=np.float32))
    with pytest.raises(InputError, match=r"word_vectors.npy is not what was saved there: its hash differs"):
        selfguide.load(tmp_path / "saved")
    (tmp_path / "saved" / "word_vectors.json").write_text("{}")
    with pytest.raises(InputError, match=r"word_vectors.json: not the record of word vectors \(KeyError 'name'\)"):
        selfguide.load(tmp_path / "saved")


def test_a_folder_that_holds_none(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read: a folder without word_vectors.json"):
        load_word_vectors(tmp_path)


def test_a_word_that_a_file_of_words_cannot_hold(tmp_path):
    vectors = WordVectors({"a\nb": 0}, np.ones((1, 2), dtype=np.float32), "0" * 64)
    with pytest.raises(InputError, match=r"the word 'a\\nb' holds the end of a line"):
        WordVectorEmbedder(vectors).save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []
