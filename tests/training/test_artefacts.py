"""What a run shows beside numbers: neighbours by a second count, maps by scikit-learn's, and few sentences of many."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from selfguide.data.pairs import ScoredPairs, read_pairs
from selfguide.files import read_json
from selfguide.training.artefacts import MAPPED, MAPPED_PAIRS, NEAREST, POOL, SHOWN, Artefacts, in_a_plane, nearest, unit
from selfguide.training.train import run_training
from tiny_runs import SENTENCES, Watcher


class Embedder:
    """Vectors of random directions, the same for the same sentence until they are changed."""

    def __init__(self):
        self.round = 0

    def encode(self, sentences):
        draws = [np.random.default_rng([self.round, *text.encode()]) for text in sentences]
        return np.array([draw.normal(size=8) for draw in draws], dtype=np.float32)


def pairs_of(count):
    texts = [f"{side} {number}" for number in range(count) for side in ("left", "right")]
    return ScoredPairs(tuple(texts[::2]), tuple(texts[1::2]), tuple(float(n) for n in range(count)), "pairs.tsv", "0")


@pytest.fixture
def written(tmp_path):
    """Neighbours and map that are written of sentences and pairs, with a training in between."""

    def write(sentences, pairs=None):
        embedder = Embedder()
        artefacts = Artefacts(embedder, sentences, pairs)
        embedder.round = 1
        artefacts.write(tmp_path, embedder)
        return read_json(tmp_path / "neighbours.json"), read_json(tmp_path / "map.json")

    return write


def test_neighbours_before_and_after_are_those_of_a_plain_count(written):
    neighbours, _ = written([f"sentence {number}" for number in range(20)])
    assert len(neighbours) == SHOWN
    for round, side in enumerate(("before", "after")):
        embedder = Embedder()
        embedder.round = round
        texts = [f"sentence {number}" for number in range(20)]
        vectors = dict(zip(texts, embedder.encode(texts).astype(float), strict=True))
        for sentence, found in neighbours.items():
            own = vectors.pop(sentence)
            cosine = {text: v @ own / np.linalg.norm(v) / np.linalg.norm(own) for text, v in vectors.items()}
            assert found[side] == sorted(cosine, key=cosine.get, reverse=True)[:NEAREST]
            vectors[sentence] = own


def test_of_many_sentences_few_are_read(written):
    neighbours, mapped = written([f"sentence {number}" for number in range(10_000)])
    assert len(mapped["before"]) == len(mapped["after"]) == MAPPED
    numbers = [int(group["sentences"][0].split()[1]) for group in mapped["before"]]
    assert numbers == sorted(numbers) and numbers[0] == 0 and numbers[-1] > 9_000, "from all of the text"
    assert {group["kind"] for group in mapped["before"]} == {"sentence"}
    assert all(group["cosine"] is None and len(group["points"]) == 1 for group in mapped["before"])
    assert len(neighbours) == SHOWN
    assert len(Artefacts(Embedder(), [f"sentence {n}" for n in range(10_000)]).pool) == POOL


def test_graded_pairs_are_mapped_where_there_are_some(written):
    _, mapped = written(["a", "b", "c"], pairs_of(100))
    kinds = [group["kind"] for group in mapped["after"]]
    assert kinds == ["alike"] * MAPPED_PAIRS + ["not alike"] * MAPPED_PAIRS
    assert mapped["after"][0]["sentences"] == [f"left {100 - MAPPED_PAIRS}", f"right {100 - MAPPED_PAIRS}"]
    assert mapped["after"][-1]["sentences"] == [f"left {MAPPED_PAIRS - 1}", f"right {MAPPED_PAIRS - 1}"]
    embedder = Embedder()
    embedder.round = 1
    left, right = embedder.encode(mapped["after"][0]["sentences"])
    cosine = left @ right / np.linalg.norm(left) / np.linalg.norm(right)
    assert mapped["after"][0]["cosine"] == pytest.approx(cosine, abs=1e-4)


def test_the_plane_is_that_of_principal_components():
    vectors = np.random.default_rng(0).normal(size=(30, 8)) * np.arange(1, 9)
    points, others = in_a_plane(vectors), PCA(2).fit_transform(vectors)
    np.testing.assert_allclose(np.abs(points), np.abs(others), atol=1e-9)


@pytest.mark.parametrize("sentences", [["one"], ["same", "same"], ["one", "two"]])
def test_little_text(written, sentences):
    neighbours, mapped = written(sentences)
    assert all(len(found["after"]) == len(set(sentences)) - 1 for found in neighbours.values())
    assert [len(group["points"][0]) for group in mapped["before"]] == [2] * len(set(sentences))


def test_one_pair(written):
    _, mapped = written(["a", "b"], pairs_of(1))
    assert [group["kind"] for group in mapped["before"]] == ["alike", "not alike"]


def test_vectors_of_a_diverged_encoder_are_written():
    found = unit(np.array([[np.nan, 1.0], [0.0, 0.0], [3.0, 4.0]]))
    np.testing.assert_allclose(found, [[0, 1], [0, 0], [0.6, 0.8]])
    assert nearest(found, [0], 2) == [[2, 1]]
    assert np.isfinite(in_a_plane(np.zeros((3, 4)))).all()


@pytest.mark.parametrize("dev", [False, True])
def test_a_run_writes_them_with_its_page(tiny_bert, text, tmp_path, dev):
    output = tmp_path / "out"
    settings = {"model": str(tiny_bert), "data": (text["sentences"],), "output": str(output), "device": "cpu", "steps": 4}
    more = {"dev": text["pairs"], "score_every": 2} if dev else {}
    run_training({**settings, **more, "batch_size": 8, "projection_width": 32}, progress=Watcher())
    record = output / "selfguide"
    neighbours, mapped = (read_json(record / name) for name in ("neighbours.json", "map.json"))
    assert set(neighbours) <= set(SENTENCES)
    assert mapped["before"] != mapped["after"]
    if dev:
        pairs = read_pairs(text["pairs"])
        assert mapped["before"][-1]["sentences"][0] in pairs.sentences1
    page = (record / "report.html").read_text("utf-8")
    assert "trained by sg-opt" in page
    assert ("chosen by these labels" in page) == dev
    assert next(iter(neighbours)) in page
