"""PCA about the origin: against scikit-learn's truncated SVD, what it keeps, and which pooling it takes."""

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sklearn.decomposition import TruncatedSVD

import selfguide
from selfguide.embedders import linear
from selfguide.embedders.base import in_parts
from selfguide.embedders.loading import load_embedder
from selfguide.embedders.pca import PcaEmbedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder, saved_pooling
from selfguide.encoders.template import with_template
from selfguide.errors import InputError
from selfguide.files import read_json, write_json
from tiny_models import DIM, MANY, SENTENCES


@pytest.fixture(scope="module")
def encoder(tiny_folder):
    return load_encoder(tiny_folder("bert"))


def cosines(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def test_directions_are_those_of_a_truncated_svd(encoder):
    embedder = PcaEmbedder(encoder, pooling="mean", dimensions=7).fit(MANY)
    svd = TruncatedSVD(7, algorithm="arpack", random_state=0).fit(PooledEmbedder(encoder, pooling="mean").encode(MANY))
    products = svd.components_.astype(np.float64) @ embedder.directions_
    np.testing.assert_allclose(np.abs(products), np.eye(7), atol=1e-4)


def test_vectors_are_projections_of_length_one(encoder):
    embedder = PcaEmbedder(encoder, dimensions=5).fit(MANY)
    pooled = PooledEmbedder(encoder).encode(SENTENCES).astype(np.float64)
    wanted = [[row @ column for column in embedder.directions_.T.astype(np.float64)] for row in pooled]
    wanted = [np.array(row) / np.sqrt(sum(value**2 for value in row)) for row in wanted]
    np.testing.assert_allclose(embedder.encode(SENTENCES), wanted, atol=1e-5)


def test_all_directions_keep_every_cosine(encoder):
    embedder = PcaEmbedder(encoder, pooling="mean").fit(MANY)
    plain = PooledEmbedder(encoder, pooling="mean").encode(SENTENCES)
    np.testing.assert_allclose(cosines(embedder.encode(SENTENCES)), cosines(plain), atol=1e-5)


def test_no_other_projection_keeps_more(encoder):
    """Of the fitting vectors' squared length; turned at random, or cut at the first dimensions, less is left."""
    vectors = PooledEmbedder(encoder).encode(MANY).astype(np.float64)
    directions = PcaEmbedder(encoder, dimensions=4).fit(MANY).directions_
    others = [np.linalg.qr(np.random.default_rng(seed).normal(size=(DIM, 4)))[0] for seed in range(20)]
    kept, *less = (np.square(vectors @ matrix).sum() for matrix in (directions, np.eye(DIM)[:, :4], *others))
    assert kept > max(less)


def test_a_cut_of_the_vectors_is_the_embedder_of_fewer_dimensions(encoder):
    nine, four = (PcaEmbedder(encoder, dimensions=size).fit(MANY) for size in (9, 4))
    np.testing.assert_array_equal(nine.directions_[:, :4], four.directions_)
    cut = nine.encode(SENTENCES)[:, :4]
    np.testing.assert_allclose(cut / np.linalg.norm(cut, axis=1, keepdims=True), four.encode(SENTENCES), atol=1e-5)


def test_a_trained_folder_keeps_its_pooling_and_its_template(encoder, tmp_path):
    templated = with_template(encoder, '{mask} means " {sentence} "')
    PooledEmbedder(templated).save(tmp_path / "cls")
    PooledEmbedder(encoder, pooling="mean").save(tmp_path / "mean")
    for name, pooling, source in (("cls", "cls", templated), ("mean", "mean", encoder)):
        small = load_embedder(
            tmp_path / name, embedder="pca", parameters={"dimensions": 6}, read_text=lambda: MANY, device="cpu"
        )
        assert small.pooling == pooling
        direct = PcaEmbedder(source, pooling=pooling, dimensions=6).fit(MANY)
        np.testing.assert_allclose(small.encode(SENTENCES), direct.encode(SENTENCES), atol=1e-5)
        small.save(tmp_path / "small")
        theirs = SentenceTransformer(str(tmp_path / "small"), device="cpu")
        np.testing.assert_allclose(theirs.encode(list(SENTENCES)), direct.encode(SENTENCES), atol=1e-5)
        assert selfguide.load(tmp_path / "small", device="cpu").protocol == small.protocol


def test_whitening_of_a_folder_with_a_template(encoder, tmp_path):
    templated = with_template(encoder, '{mask} means " {sentence} "')
    PooledEmbedder(templated).save(tmp_path / "cls")
    options = {"parameters": {"dimensions": 6, "pooling": "cls"}, "read_text": lambda: MANY, "device": "cpu"}
    white = load_embedder(tmp_path / "cls", embedder="whitening", **options)
    white.save(tmp_path / "white")
    theirs = SentenceTransformer(str(tmp_path / "white"), device="cpu").encode(list(SENTENCES))
    np.testing.assert_allclose(theirs, white.encode(SENTENCES), atol=1e-5)
    plain = load_embedder(encoder.name, embedder="whitening", **options)
    assert np.abs(plain.encode(SENTENCES) - theirs).max() > 0.1, "the template makes a difference"


@pytest.mark.parametrize("spelling", ["ours", "theirs"])
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_the_pooling_of_a_folder(encoder, tmp_path, pooling, spelling):
    PooledEmbedder(encoder, pooling=pooling).save(tmp_path / "ours")
    SentenceTransformer(str(tmp_path / "ours"), device="cpu").save(str(tmp_path / "theirs"))
    assert saved_pooling(str(tmp_path / spelling)) == pooling


def test_a_plain_encoder_has_no_pooling_and_another_one_is_named(encoder, tmp_path):
    assert saved_pooling("mini") is None
    assert saved_pooling(encoder.name) is None
    PooledEmbedder(encoder).save(tmp_path / "saved")
    config = read_json(tmp_path / "saved" / "1_Pooling" / "config.json")
    write_json(tmp_path / "saved" / "1_Pooling" / "config.json", {**config, "pooling_mode_mean_tokens": True})
    with pytest.raises(InputError, match=r"the pooling of '.*' is cls, mean; name one with --pooling: cls, mean, max"):
        saved_pooling(str(tmp_path / "saved"))
    options = {"embedder": "pca", "read_text": lambda: MANY, "device": "cpu"}
    small = load_embedder(tmp_path / "saved", parameters={"dimensions": 3, "pooling": "mean"}, **options)
    assert small.encode(["the cat"]).shape == (1, 3)


def test_vectors_are_made_a_part_at_a_time(encoder, monkeypatch):
    whole = PcaEmbedder(encoder, dimensions=5).fit(MANY)
    monkeypatch.setattr(linear, "in_parts", lambda sentences: in_parts(sentences, 10))
    parts = PcaEmbedder(encoder, dimensions=5).fit(MANY)
    np.testing.assert_allclose(parts.encode(SENTENCES), whole.encode(SENTENCES), atol=1e-4)
