import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError
from tiny_models import ENCODERS, LAYERS, SENTENCES


@pytest.fixture(scope="module")
def encoder(tiny_folder):
    return load_encoder(tiny_folder("bert"))


@pytest.fixture(scope="module")
def hidden(tiny_folder):
    """States of each sentence by transformers alone, one sentence at a time: (layers, tokens, dim)."""
    model = AutoModel.from_pretrained(tiny_folder("bert"), dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder("bert"))
    with torch.no_grad():
        outputs = [model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True) for text in SENTENCES]
    return [torch.cat(output.hidden_states).numpy() for output in outputs]


@pytest.mark.parametrize("layer", [None, 0, 2])
def test_pooling_of_one_layer(encoder, hidden, layer):
    number = LAYERS if layer is None else layer
    expected = {
        "cls": [states[number, 0] for states in hidden],
        "mean": [states[number].mean(axis=0) for states in hidden],
        "max": [states[number].max(axis=0) for states in hidden],
    }
    for pooling, vectors in expected.items():
        found = PooledEmbedder(encoder, pooling=pooling, layer=layer).encode(SENTENCES)
        np.testing.assert_allclose(found, vectors, atol=2e-5)


@pytest.mark.parametrize(("pooling", "layers"), [("last-2", (3, 4)), ("first-last", (1, 4)), ("embeddings-last", (0, 4))])
def test_averages_of_layers(encoder, hidden, pooling, layers):
    expected = [states[list(layers)].mean(axis=(0, 1)) for states in hidden]
    np.testing.assert_allclose(PooledEmbedder(encoder, pooling=pooling).encode(SENTENCES), expected, atol=2e-5)


def test_names_tell_apart_what_gives_different_vectors(encoder):
    def name(**options):
        return PooledEmbedder(encoder, **options).name.partition("/")[2]

    assert name() == "cls"
    assert name(pooling="mean", layer=2) == "mean@2"
    assert name(pooling="mean", layer=LAYERS) == "mean"
    assert name(pooling="first-last") == "first-last"
    assert name(pooling="last-2") == "last-2"


def test_protocol(encoder):
    protocol = PooledEmbedder(encoder, pooling="embeddings-last").protocol
    weights = protocol.pop("weights")
    assert protocol == {"pooling": "embeddings-last", "layers": [0, 4], "max_length": 48, "precision": "float32"}
    assert weights == PooledEmbedder(load_encoder(encoder.name)).protocol["weights"]


def test_other_weights_have_another_hash(tiny_folder, encoder):
    changed = load_encoder(tiny_folder("bert"))
    with torch.no_grad():
        next(changed.model.parameters())[0, 0] += 1e-3
    assert PooledEmbedder(changed).protocol["weights"] != PooledEmbedder(encoder).protocol["weights"]


def test_wrong_layer(encoder):
    with pytest.raises(InputError, match="this encoder has layers 0"):
        PooledEmbedder(encoder, pooling="mean", layer=LAYERS + 1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pooling": "mean"},
        {"pooling": "max", "layer": 2},
        {"layer": 1},
        {"pooling": "mean", "layer": 0},
        {"pooling": "last-3"},
        {"pooling": "embeddings-last"},
    ],
    ids=str,
)
def test_the_saved_folder_gives_the_same_vectors(encoder, tmp_path, options):
    embedder = PooledEmbedder(encoder, **options)
    embedder.save(tmp_path / "saved")
    host = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_allclose(host.encode(list(SENTENCES)), embedder.encode(SENTENCES), atol=1e-5)
    is_plain = embedder.layer_pooling.layers == (LAYERS,)
    assert [type(module).__name__ for module in host][1:] == (
        ["Pooling"] if is_plain else ["WeightedLayerPooling", "Pooling"]
    )
    again = PooledEmbedder(load_encoder(tmp_path / "saved", is_part=True), **options)
    assert again.protocol == embedder.protocol


@pytest.mark.parametrize("family", ENCODERS)
def test_layers_in_the_saved_folder_of_every_family(tiny_folder, tmp_path, family):
    embedder = PooledEmbedder(load_encoder(tiny_folder(family)), pooling="first-last")
    embedder.save(tmp_path / "saved")
    host = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_allclose(host.encode(list(SENTENCES)), embedder.encode(SENTENCES), atol=1e-5)


def test_a_folder_with_layers_saved_again_without(encoder, tmp_path):
    """The states of all layers are only asked for where they are used."""
    PooledEmbedder(encoder, pooling="last-2").save(tmp_path / "layers")
    PooledEmbedder(load_encoder(tmp_path / "layers", is_part=True)).save(tmp_path / "plain")
    flags = [AutoModel.from_pretrained(tmp_path / name).config.output_hidden_states for name in ("layers", "plain")]
    assert flags == [True, False]
