"""Vectors scored as a store would hold them: cut, int8, bits; by hand on small ones, and through ``evaluate``."""

from types import MappingProxyType

import numpy as np
import pytest

import selfguide
from selfguide.embedders.stored import StoredVectors
from selfguide.errors import InputError
from selfguide.evaluation.compare import run_comparison
from selfguide.evaluation.config import EvaluationConfig
from tiny_models import MANY, SENTENCES

NUMBERS = {"a": [127, -63.4, 0, 2], "b": [-300, 0.6, 1, -2], "c": [1, 2, 3, 4]}


class Table:
    """Vectors by sentence."""

    name = "table"
    protocol = MappingProxyType({"pooling": "none", "weights": "0"})

    def encode(self, sentences):
        return np.array([NUMBERS[sentence] for sentence in sentences], np.float32)


def test_a_cut():
    view = StoredVectors(Table(), truncate_dim=2)
    assert view.encode(["a", "c"]).tolist() == [[127, pytest.approx(-63.4)], [1, 2]]
    assert view.name == "table (first 2)"
    assert view.protocol == {**Table.protocol, "vectors": "float32", "truncate_dim": 2}


def test_codes_have_the_scale_of_the_sentences_given():
    view = StoredVectors(Table(), vectors="int8", sentences=["a", "c"])
    assert view.encode(["a", "b"]).tolist() == [[127, -63, 0, 2], [-128, 1, 1, -2]]
    assert view.name == "table (int8)"
    assert view.protocol == {**Table.protocol, "vectors": "int8", "int8_step": 1.0}


def test_bits_are_signs():
    view = StoredVectors(Table(), vectors="binary", truncate_dim=3)
    assert view.encode(["a", "b"]).tolist() == [[1, -1, -1], [-1, 1, 1]]
    assert view.name == "table (first 3, binary)"
    assert view.protocol["similarity"] == "hamming"


def test_what_is_wrong():
    with pytest.raises(InputError, match="--truncate-dim is 5; the vectors have 4 dimensions: give at most that"):
        StoredVectors(Table(), truncate_dim=5).encode(["a"])
    with pytest.raises(
        InputError, match="int8 vectors have a scale, which is taken from text: give sentences with --fit-on F"
    ):
        StoredVectors(Table(), vectors="int8")


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"{sentence}\n" for sentence in MANY))
    return str(tmp_path / "text.txt")


def test_evaluate(tiny_sts, tiny_bert, text):
    shared = {"data": str(tiny_sts), "tasks": "STS-B", "device": "cpu", "progress": False}
    found = {}
    for vectors in ("float32", "int8", "binary"):
        fitted = {"fit_on": text} if vectors == "int8" else {}
        spearman, _ = selfguide.evaluate(tiny_bert, vectors=vectors, **fitted, **shared)
        found[vectors] = spearman
    assert [row.embedder.removeprefix(f"{tiny_bert.name}/cls") for row in found.values()] == ["", " (int8)", " (binary)"]
    assert [row.protocol["similarity"] for row in found.values()] == ["cosine", "cosine", "hamming"]
    assert found["int8"].value == pytest.approx(found["float32"].value, abs=15)
    assert len({row.run_id for row in found.values()}) == 3
    again, _ = selfguide.evaluate(selfguide.load(tiny_bert, device="cpu"), vectors="int8", fit_on=text, **shared)
    assert again.value == found["int8"].value


def test_binary_ranks_as_hamming_distances_do(tiny_bert):
    embedder = selfguide.load(tiny_bert, device="cpu")
    packed = [int.from_bytes(np.packbits(row > 0).tobytes()) for row in embedder.encode(SENTENCES)]
    signs = StoredVectors(embedder, vectors="binary").encode(SENTENCES)
    for one in range(len(SENTENCES)):
        for other in range(len(SENTENCES)):
            cosine = signs[one] @ signs[other] / signs.shape[1]
            assert cosine == pytest.approx(1 - 2 * (packed[one] ^ packed[other]).bit_count() / signs.shape[1])


def test_an_embedder_that_learns_and_is_stored_reads_the_text_twice(tiny_sts, tiny_bert, text):
    rows = selfguide.evaluate(
        tiny_bert, embedder="pca", dimensions=8, vectors="int8", fit_on=text, data=str(tiny_sts), tasks="STS-B",
        device="cpu", progress=False,
    )  # fmt: skip
    assert rows[0].embedder == f"{tiny_bert.name}/pca (int8)"
    assert (rows[0].protocol["dimensions"], rows[0].protocol["vectors"]) == (8, "int8")


def test_compare(tiny_sts, tiny_bert, text):
    config = EvaluationConfig(data=str(tiny_sts), tasks=("STS-B",), device="cpu", vectors="int8", fit_on=(text,))
    comparison = run_comparison([str(tiny_bert), f"{tiny_bert}:mean"], config, draws=5, progress=False)
    assert {row.embedder for row in comparison.rows} == {f"{tiny_bert.name}/{name} (int8)" for name in ("cls", "mean")}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vectors": "int4"}, "--vectors 'int4' is not known; choose one of: float32, int8, binary"),
        ({"vectors": "int8"}, "--vectors int8 has a scale, which is taken from text: give sentences with --fit-on F"),
        ({"truncate_dim": 0}, "--truncate-dim is 0; it must be 1 or more"),
        ({"truncate_dim": "x"}, "--truncate-dim is 'x'; it takes a whole number"),
        ({"truncate_dim": 33}, "--truncate-dim is 33; the vectors have 32 dimensions"),
        ({"vectors": "binary", "sweep": True}, "--sweep scores vectors as they are; leave --vectors and --truncate-dim out"),
        ({"vectors": "binary", "tasks": "RTE"}, "RTE fine-tunes an encoder and has no vectors"),
        ({"vectors": "binary", "fit_on": "text.txt"}, "--fit-on does not go with 'cls', which learns nothing"),
    ],
    ids=str,
)
def test_wrong_use(tiny_sts, tiny_bert, settings, message):
    with pytest.raises(InputError, match=message):
        selfguide.evaluate(tiny_bert, **{"data": str(tiny_sts), "tasks": "STS-B", "device": "cpu", **settings})
