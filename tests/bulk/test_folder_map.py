"""Folders with a linear map behind [CLS] go the quick way, and give what sentence-transformers gives."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer

from selfguide import InputError
from selfguide.bulk.coders import FirstTokenCoder, PlainCoder, all_vectors
from selfguide.bulk.config import EncodeConfig
from selfguide.bulk.folder_map import MappedCoder
from selfguide.bulk.loading import load_coder
from selfguide.embedders.pca import PcaEmbedder
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.encoders.template import with_template
from selfguide.files import read_json, write_json
from tiny_models import MANY, SENTENCES


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def coder_of(model, **settings):
    return load_coder(EncodeConfig(model=str(model), output="x.npy", device="cpu", **settings))


def vectors_of(coder):
    return all_vectors(coder, SENTENCES)


def save_small(encoder, folder, **settings):
    """A folder as training writes it, with a map to 5 dimensions behind the pooling."""
    draws = np.random.default_rng(0)
    weight, bias = draws.normal(size=(5, encoder.dim)).astype(np.float32), draws.normal(size=5).astype(np.float32)
    folder.mkdir()
    save_encoder(encoder, folder, dense=(weight, bias), **settings)
    return folder


@pytest.mark.parametrize("with_normalize", [True, False])
def test_vectors_are_those_of_sentence_transformers(place, tiny_bert, with_normalize):
    folder = save_small(with_template(load_encoder(tiny_bert), '{mask} " {sentence} "'), place / "small")
    if not with_normalize:
        write_json(folder / "modules.json", read_json(folder / "modules.json")[:-1])
    theirs = SentenceTransformer(str(folder), device="cpu")
    coder = coder_of(folder)
    assert isinstance(coder, MappedCoder) and isinstance(coder.coder, FirstTokenCoder)
    np.testing.assert_allclose(vectors_of(coder), theirs.encode(list(SENTENCES)), atol=1e-5)
    theirs.save(str(place / "theirs"))
    again = coder_of(place / "theirs")
    assert isinstance(again, MappedCoder), "as the current version spells it, too"
    np.testing.assert_allclose(vectors_of(again), vectors_of(coder), atol=1e-6)
    assert again.identity["map"] == coder.identity["map"]


@pytest.mark.parametrize("kind", [PcaEmbedder, WhiteningEmbedder])
def test_fitted_embedders(place, tiny_bert, kind, caplog):
    embedder = kind(load_encoder(tiny_bert), pooling="cls", dimensions=6).fit(MANY)
    embedder.save("small")
    coder = coder_of("small")
    assert isinstance(coder, MappedCoder)
    np.testing.assert_allclose(vectors_of(coder), embedder.encode(SENTENCES), atol=1e-5)
    assert "left out" not in caplog.text
    kind(load_encoder(tiny_bert), pooling="mean", dimensions=6).fit(MANY).save("mean")
    assert isinstance(coder_of("mean"), PlainCoder)
    weights = load_file("small/model.safetensors")
    save_file({name: array + 1 for name, array in weights.items()}, "small/model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="was made with another encoder"):
        coder_of("small")


def test_another_map_is_another_job(place, tiny_bert):
    folder = save_small(load_encoder(tiny_bert), place / "small")
    before = coder_of(folder).identity
    assert before["dimensions"] == 5 and before["normalizes"]
    arrays = load_file(folder / "2_Dense" / "model.safetensors")
    save_file({**arrays, "linear.bias": arrays["linear.bias"] + 1}, folder / "2_Dense" / "model.safetensors")
    after = coder_of(folder).identity
    assert {name for name in before if before[name] != after[name]} == {"map"}


def test_what_is_no_such_map_goes_the_plain_way(place, tiny_bert, tiny_folder):
    assert isinstance(coder_of(save_small(load_encoder(tiny_folder("distilbert")), place / "other")), PlainCoder)
    folder = save_small(load_encoder(tiny_bert), place / "small")
    assert isinstance(coder_of(folder, embedder="cls"), FirstTokenCoder)
    config = read_json(folder / "2_Dense" / "config.json")
    write_json(folder / "2_Dense" / "config.json", {**config, "activation_function": "torch.nn.modules.activation.Tanh"})
    coder = coder_of(folder)
    assert isinstance(coder, PlainCoder)
    theirs = SentenceTransformer(str(folder), device="cpu").encode(list(SENTENCES))
    np.testing.assert_allclose(vectors_of(coder), theirs, atol=1e-5)


def test_another_precision_is_that_of_the_encoder(place, tiny_bert):
    coder = coder_of(save_small(load_encoder(tiny_bert), place / "small"))
    before = vectors_of(coder)
    coder.lower(torch.float64)
    assert coder.coder.encoder.model.dtype == torch.float64
    assert vectors_of(coder).dtype == np.float32
    np.testing.assert_allclose(vectors_of(coder), before, atol=1e-5)
