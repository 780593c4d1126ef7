"""``--dimensions``: what is saved, what is said about it, going on after an interruption, and training on from it."""

import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import selfguide
from selfguide.bulk.encode import encode_files
from selfguide.data.pairs import read_pairs
from selfguide.embedders.pca import PcaEmbedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.training_record import read_training_record
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError
from selfguide.files import read_json, read_json_lines
from selfguide.similarity import spearman
from selfguide.training.progress import Silent
from selfguide.training.train import run_training
from tiny_models import DIM
from tiny_runs import SENTENCES, Interrupter, same_bits, tree, weights_of
from tiny_sts import use_tiny_sts

SMALL = {"steps": 4, "batch_size": 8, "projection_width": 32, "learning_rate": 1e-3, "device": "cpu"}


def train(model, output, text, progress=None, *, resume=False, **settings):
    given = {"model": str(model), "output": str(output), "data": (text["sentences"],), **SMALL, **settings}
    run_training(given, progress=progress or Silent(), resume=resume)
    return output


@pytest.fixture(scope="module")
def runs(tiny_folder, text, tmp_path_factory):
    """Two finished runs that differ in ``--dimensions`` alone; to be read, never written to."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {"preset": "prompted", "dev": text["pairs"], "score_every": 2}
    return {
        dimensions: train(tiny_folder("bert"), folder / f"d{dimensions}", text, dimensions=dimensions, **settings)
        for dimensions in (None, 6)
    }


def test_the_folder_gives_small_vectors_of_the_same_encoder(runs):
    assert same_bits(weights_of(runs[6]), weights_of(runs[None]))
    whole = PooledEmbedder(load_encoder(runs[None])).encode(SENTENCES).astype(np.float64)
    directions = np.linalg.svd(whole, full_matrices=False)[2][:6].T  # 40 sentences: all are in the sample
    small = SentenceTransformer(str(runs[6]), device="cpu").encode(list(SENTENCES))
    assert small.shape == (len(SENTENCES), 6)
    wanted = whole @ directions
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(small @ small.T, wanted @ wanted.T, atol=1e-4)


def test_what_is_said(runs, text):
    record = runs[6] / "selfguide"
    summary, scores = read_json(record / "summary.json"), read_json_lines(record / "scores.jsonl")
    pairs = read_pairs(text["pairs"])
    model = SentenceTransformer(str(runs[6]), device="cpu")
    left, right = (model.encode(list(side)) for side in (pairs.sentences1, pairs.sentences2))
    value = spearman((left * right).sum(axis=1), pairs.scores)
    assert summary["dim"] == 6
    assert summary["after_cut"] == pytest.approx(value, abs=1e-6)
    assert [row["embedder"].split("/")[1] for row in scores] == ["cls", "sg-opt", "sg-opt-6d"]
    assert (scores[2]["value"], scores[2]["protocol"]["dimensions"]) == (summary["after_cut"], 6)
    assert scores[1]["value"] == summary["after"] == read_json(runs[None] / "selfguide" / "summary.json")["after"]
    card = (runs[6] / "README.md").read_text()
    assert "a vector of 6 numbers out: the first token ([MASK]) of the last layer, cut to 6 dimensions by PCA of" in card
    assert f"{summary['after']:.2f}, {value:.2f} with the 6 dimensions that are saved |" in card
    assert "- `dimensions`: `6`" in card
    assert f"a vector of {DIM} numbers" in (runs[None] / "README.md").read_text()


def test_neighbours_and_map_are_those_of_the_small_vectors(runs):
    neighbours = read_json(runs[6] / "selfguide" / "neighbours.json")
    pool = list(SENTENCES)
    vectors = SentenceTransformer(str(runs[6]), device="cpu").encode(pool)
    for sentence, found in neighbours.items():
        cosines = vectors @ vectors[pool.index(sentence)]
        cosines[pool.index(sentence)] = -2
        assert found["after"] == [pool[position] for position in np.argsort(-cosines)[: len(found["after"])]]


def test_loaded_evaluated_and_encoded(runs, monkeypatch, tmp_path):
    use_tiny_sts(monkeypatch, tmp_path / "data")
    embedder = selfguide.load(runs[6], device="cpu")
    assert embedder.name.endswith("/sg-opt-6d")
    assert embedder.protocol["modules"] == ["Transformer", "Pooling", "Dense", "Normalize"]
    rows = selfguide.evaluate(runs[6], data=str(tmp_path / "data"), tasks="STS-B", device="cpu", progress=False)
    assert rows[0].embedder == embedder.name
    encode_files(SENTENCES, tmp_path / "v.npy", model=runs[6], device="cpu", progress=False)
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), embedder.encode(SENTENCES), atol=1e-5)


def test_trained_on_from_it(runs, text, tmp_path, caplog):
    """The encoder goes on; its map is left out, which is said, and a new one is made where that is asked for."""
    again = train(runs[6], tmp_path / "again", text)
    assert "only the transformer is used (left out: Dense, Normalize)" in caplog.text
    assert SentenceTransformer(str(again), device="cpu").encode(["the cat"]).shape == (1, DIM)
    same = train(runs[None], tmp_path / "same", text)
    assert same_bits(weights_of(again), weights_of(same))
    smaller = train(runs[6], tmp_path / "smaller", text, dimensions=3)
    assert SentenceTransformer(str(smaller), device="cpu").encode(["the cat"]).shape == (1, 3)


def test_going_on_gives_the_same_folder(tiny_bert, text, tmp_path):
    whole = train(tiny_bert, tmp_path / "whole", text, dimensions=5)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_bert, tmp_path / "parts", text, Interrupter(2), dimensions=5)
    train(tiny_bert, tmp_path / "parts", text, resume=True, dimensions=5)
    files = ("model.safetensors", "modules.json", "2_Dense/model.safetensors", "2_Dense/config.json")
    assert [tree(whole)[name] for name in files] == [tree(tmp_path / "parts")[name] for name in files]


def test_in_python_with_a_score_function_and_another_anchor(tiny_bert, text, tmp_path):
    seen = []

    def score(embedder):
        seen.append(embedder.encode(["the cat"]).shape[1])
        return float(len(seen))

    settings = {**SMALL, "anchor": "mean", "dimensions": 4, "score_every": 2, "progress": False}
    model = selfguide.train(tiny_bert, text["sentences"], tmp_path / "out", score=score, **settings)
    assert model.encode(["the cat"]).shape == (1, 4)
    assert seen == [DIM, DIM, DIM, 4]
    card = (tmp_path / "out" / "README.md").read_text()
    assert "1.00 before training, 3.00 after, 4.00 with the 4 dimensions that are saved." in card
    fitted = PcaEmbedder(load_encoder(tmp_path / "out"), pooling="mean", dimensions=4).fit(SENTENCES)
    np.testing.assert_allclose(model.encode(list(SENTENCES)), fitted.encode(SENTENCES), atol=1e-5)


@pytest.mark.parametrize(
    ("dimensions", "message"),
    [
        (0, "--dimensions is 0; it must be 1 or more"),
        (DIM + 1, rf"--dimensions is {DIM + 1}; '.*' has {DIM}: give 1 to {DIM}"),
        ("many", "--dimensions is 'many'; it takes a whole number"),
    ],
)
def test_wrong_use_is_told_before_training(tiny_bert, text, tmp_path, dimensions, message):
    with pytest.raises(InputError, match=message):
        train(tiny_bert, tmp_path / "out", text, dimensions=dimensions)
    assert list(tmp_path.iterdir()) == []


def test_too_few_sentences(tiny_bert, tmp_path):
    (tmp_path / "few.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES[:10]))
    with pytest.raises(InputError, match=r"--dimensions is 20, but the training data holds 10 sentences; use --dim"):
        train(tiny_bert, tmp_path / "out", {"sentences": str(tmp_path / "few.txt")}, dimensions=20)


def test_the_configuration_of_an_older_run_has_no_dimensions(runs, tmp_path):
    (tmp_path / "selfguide").mkdir()
    config = read_json(runs[None] / "selfguide" / "config.json")
    del config["dimensions"]
    (tmp_path / "selfguide" / "config.json").write_text(json.dumps(config))
    assert read_training_record(tmp_path).name.endswith("/sg-opt")
