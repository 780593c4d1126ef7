import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sklearn.decomposition import PCA
from transformers import AutoModel

import selfguide
from selfguide.embedders import linear, whitening
from selfguide.embedders.base import in_parts
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError
from selfguide.files import read_json
from tiny_models import DIM, MANY, SENTENCES


@pytest.fixture(scope="module")
def encoder(tiny_folder):
    return load_encoder(tiny_folder("bert"))


def pooled(encoder, pooling, sentences):
    return PooledEmbedder(encoder, pooling=pooling).encode(sentences).astype(np.float64)


# The formula


@pytest.mark.parametrize(("pooling", "dimensions"), [("first-last", None), ("first-last", 7), ("mean", 31), ("cls", 5)])
def test_the_same_as_scikit_learns_whitened_components(encoder, pooling, dimensions):
    """Up to the sign of a direction, which no cosine depends on."""
    components = PCA(dimensions, whiten=True, svd_solver="full").fit(pooled(encoder, pooling, MANY))
    expected = components.transform(pooled(encoder, pooling, SENTENCES))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = WhiteningEmbedder(encoder, pooling=pooling, dimensions=dimensions).fit(MANY).encode(SENTENCES)
    assert found.shape == (len(SENTENCES), dimensions or DIM)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)


def test_fitting_vectors_come_out_white(encoder):
    fitted = WhiteningEmbedder(encoder).fit(MANY)
    white = (pooled(encoder, "first-last", MANY) - fitted.mean_) @ fitted.whitening_
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(white.T), np.eye(DIM), atol=1e-3)
    assert fitted.mean_.dtype == fitted.whitening_.dtype == np.float32


def test_moments_of_parts_are_those_of_the_whole():
    rows = np.random.default_rng(0).normal(size=(50, 4)) + 1e6
    mean, covariance = whitening._mean_and_covariance(rows[start : start + 7] for start in range(0, 50, 7))
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(covariance, np.cov(rows.T), atol=1e-8)


def test_vectors_are_made_a_part_at_a_time(encoder, monkeypatch):
    whole = WhiteningEmbedder(encoder).fit(MANY)
    sizes = []

    def in_small_parts(sentences):
        for part in in_parts(sentences, 10):
            sizes.append(len(part))
            yield part

    monkeypatch.setattr(linear, "in_parts", in_small_parts)
    parts = WhiteningEmbedder(encoder).fit(MANY)
    assert sizes == [10] * (len(MANY) // 10) + [len(MANY) % 10]
    np.testing.assert_allclose(parts.mean_, whole.mean_, atol=1e-6)
    cosines = [found @ found.T for found in (parts.encode(SENTENCES), whole.encode(SENTENCES))]
    np.testing.assert_allclose(*cosines, atol=1e-4)


def test_name_and_protocol(encoder):
    embedder = WhiteningEmbedder(encoder, dimensions=5).fit(MANY)
    assert embedder.name.endswith("/whitening")
    expected = {"embedder": "whitening", "pooling": "first-last", "layers": [1, 4], "dimensions": 5, "max_length": 48}
    assert embedder.protocol.items() >= expected.items()
    assert embedder.protocol["weights"] != WhiteningEmbedder(encoder, dimensions=5).fit(MANY[1:]).protocol["weights"]


# What is wrong


@pytest.mark.parametrize("dimensions", [0, -1, DIM + 1])
def test_dimensions_out_of_range(encoder, dimensions):
    with pytest.raises(InputError, match=rf"--dimensions is {dimensions}; '.*' has {DIM}: give 1 to {DIM}"):
        WhiteningEmbedder(encoder, dimensions=dimensions)
    with pytest.raises(InputError, match=f"--dimensions is {dimensions}"):
        WhiteningEmbedder(encoder).set_params(dimensions=dimensions).fit(MANY)


def test_a_single_text_is_not_fitted_letter_by_letter(encoder):
    with pytest.raises(InputError, match="a single text was given"):
        WhiteningEmbedder(encoder).fit("the cat" * 10)


def test_a_pooling_that_is_not_known(encoder):
    with pytest.raises(InputError, match="pooling 'avg' is not known"):
        WhiteningEmbedder(encoder, pooling="avg")


@pytest.mark.parametrize(("dimensions", "needed"), [(None, DIM), (6, 6)])
def test_as_many_sentences_as_dimensions_are_too_few(encoder, dimensions, needed):
    with pytest.raises(
        InputError, match=rf"^{needed} sentences were given to whiten {needed} dimensions; .* more than {needed}"
    ):
        WhiteningEmbedder(encoder, dimensions=dimensions).fit(MANY[:needed])
    fitted = WhiteningEmbedder(encoder, dimensions=6).fit(MANY[:7])
    assert fitted.encode(SENTENCES).shape == (len(SENTENCES), 6)


def test_sentences_that_do_not_vary_enough(encoder):
    few = MANY[:11] * 4
    with pytest.raises(InputError, match=rf"vary in 10 of {DIM} directions .* {DIM - 10} are empty: .* \(--dimensions 10\)"):
        WhiteningEmbedder(encoder).fit(few)
    with pytest.raises(InputError, match="--dimensions 10"):
        WhiteningEmbedder(encoder, dimensions=11).fit(few)
    assert np.isfinite(WhiteningEmbedder(encoder, dimensions=10).fit(few).encode(SENTENCES)).all()


def test_dimensions_that_were_changed_after_the_fit(encoder):
    fitted = WhiteningEmbedder(encoder, dimensions=6).fit(MANY)
    with pytest.raises(InputError, match=r"the fitted whitening has sizes .* but 3 of 32 dimensions have .*; fit it again"):
        fitted.set_params(dimensions=3).encode(SENTENCES)


def test_a_layer_norm_leaves_one_direction_empty(encoder):
    """The last layer of BERT ends in one: a fixed combination of its states is the same for every token."""
    with pytest.raises(InputError, match=rf"vary in {DIM - 1} of {DIM} directions"):
        WhiteningEmbedder(encoder, pooling="mean").fit(MANY)


def test_vectors_that_are_not_finite(tiny_folder):
    broken = load_encoder(tiny_folder("bert"))
    with torch.no_grad():
        broken.model.embeddings.word_embeddings.weight[broken.tokenizer.convert_tokens_to_ids("river")] = float("nan")
    first = next(text for text in MANY if "river" in text)
    with pytest.raises(InputError, match=f"gives a vector with values that are not finite for: '{first}'"):
        WhiteningEmbedder(broken).fit(MANY)


# The folder


@pytest.mark.parametrize(
    ("pooling", "dimensions", "modules"),
    [
        ("first-last", None, ["Transformer", "WeightedLayerPooling", "Pooling", "Dense", "Normalize"]),
        ("last-2", 9, ["Transformer", "WeightedLayerPooling", "Pooling", "Dense", "Normalize"]),
        ("mean", 31, ["Transformer", "Pooling", "Dense", "Normalize"]),
        ("cls", 4, ["Transformer", "Pooling", "Dense", "Normalize"]),
    ],
)
def test_sentence_transformers_gives_the_same_vectors(encoder, tmp_path, pooling, dimensions, modules):
    embedder = WhiteningEmbedder(encoder, pooling=pooling, dimensions=dimensions).fit(MANY)
    embedder.save(tmp_path / "saved")
    host = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert [type(module).__name__ for module in host] == modules
    assert host.get_embedding_dimension() == (dimensions or DIM)
    np.testing.assert_allclose(host.encode(list(SENTENCES)), embedder.encode(SENTENCES), atol=1e-5)
    model = AutoModel.from_pretrained(tmp_path / "saved")
    assert bool(model.config.output_hidden_states) == ("WeightedLayerPooling" in modules)
    loaded = selfguide.load(tmp_path / "saved", device="cpu")
    assert isinstance(loaded, WhiteningEmbedder)
    np.testing.assert_array_equal(loaded.encode(SENTENCES), embedder.encode(SENTENCES))


def test_names_in_the_folder_are_those_that_old_readers_know(encoder, tmp_path):
    WhiteningEmbedder(encoder).fit(MANY).save(tmp_path / "saved")
    modules = read_json(tmp_path / "saved" / "modules.json")
    assert [module["type"].rpartition(".")[0] for module in modules] == ["sentence_transformers.models"] * 5
    assert [module["path"] for module in modules] == ["", "1_WeightedLayerPooling", "2_Pooling", "3_Dense", "4_Normalize"]
    layers = read_json(tmp_path / "saved" / "1_WeightedLayerPooling" / "config.json")
    assert layers == {"word_embedding_dimension": DIM, "layer_start": 0, "num_hidden_layers": 4}
    assert read_json(tmp_path / "saved" / "3_Dense" / "config.json") == {
        "in_features": DIM,
        "out_features": DIM,
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
