import logging

import numpy as np
import pytest
import torch
from sklearn.base import clone

import selfguide
from selfguide.embedders.flow import FlowEmbedder
from selfguide.embedders.glow import Glow
from selfguide.embedders.loading import load_embedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError
from tiny_models import DIM, SENTENCES, WORDS


def sentences(count):
    """Of 3 to 9 words, chosen at random."""
    chance = np.random.default_rng(0)
    return [" ".join(chance.choice(WORDS, chance.integers(3, 10))) for _ in range(count)]


@pytest.fixture(scope="module")
def encoder(tiny_folder):
    return load_encoder(tiny_folder("bert"))


@pytest.fixture(scope="module")
def text():
    return sentences(200)


@pytest.fixture(scope="module")
def fitted(encoder, text):
    return FlowEmbedder(encoder).fit(text)


def test_vectors_are_the_flow_of_the_pooled_vectors(encoder, text, fitted):
    """The parameters of ``flow_`` in the order of the module's, on the mean of layers 1 and 4 over the tokens."""
    flow = Glow(DIM, levels=3, depth=3, width=32, generator=torch.Generator()).requires_grad_(False)
    sizes = [parameter.numel() for parameter in flow.parameters()]
    for parameter, values in zip(flow.parameters(), np.split(fitted.flow_, np.cumsum(sizes)[:-1]), strict=True):
        parameter.copy_(torch.tensor(values).view_as(parameter))
    x = torch.from_numpy(PooledEmbedder(encoder, pooling="first-last").encode(text))
    z = fitted.encode(text)
    assert z.shape == x.shape
    np.testing.assert_allclose(z, flow(x)[0], atol=1e-5)
    np.testing.assert_allclose(flow.inverse(torch.from_numpy(z)), x, atol=1e-4)


def test_latent_vectors_are_nearly_standard_normal(encoder, text, fitted):
    vectors = fitted.encode(text)
    assert np.abs(vectors.mean(axis=0)).max() < 0.5
    assert 0.5 < vectors.std(axis=0).min() < vectors.std(axis=0).max() < 2
    assert PooledEmbedder(encoder, pooling="first-last").encode(text).std(axis=0).max() < 0.5


def test_training_lowers_the_bits(encoder, text, caplog):
    with caplog.at_level(logging.INFO, logger="selfguide"):
        FlowEmbedder(encoder, epochs=3).fit(text)
    before, after = (float(message.split()[4]) for message in caplog.messages[-2:])
    assert after < before - 0.1


def test_the_seed_decides(encoder, text, fitted):
    assert np.array_equal(FlowEmbedder(encoder).fit(text).flow_, fitted.flow_)
    other = FlowEmbedder(encoder, seed=2).fit(text)
    assert not np.array_equal(other.flow_, fitted.flow_)
    assert other.protocol["training_seed"] == 2
    assert other.protocol["weights"] != fitted.protocol["weights"]


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "last-2"},
        {"levels": 2},
        {"depth": 2},
        {"width": 16},
        {"epochs": 2},
        {"batch_size": 16},
        {"learning_rate": 2e-3},
        {"init_sentences": 32},
    ],
)
def test_every_parameter_does_something(encoder, text, fitted, options):
    other = FlowEmbedder(encoder, **options).fit(text)
    assert np.abs(other.encode(SENTENCES) - fitted.encode(SENTENCES)).max() > 1e-3
    assert other.protocol | options == other.protocol


def test_the_encoder_stays_as_it_is(tiny_folder, text):
    encoder = load_encoder(tiny_folder("bert"))
    encoder.model.train()
    before = {name: tensor.clone() for name, tensor in encoder.model.state_dict().items()}
    first, second = (FlowEmbedder(encoder).fit(text).flow_ for _ in range(2))
    assert np.array_equal(first, second)  # dropout is off
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.model.state_dict().items())
    assert all(parameter.grad is None for parameter in encoder.model.parameters())


def test_protocol(fitted):
    protocol = fitted.protocol
    assert len(protocol.pop("weights")) == 64
    assert protocol == {
        "embedder": "flow",
        "pooling": "first-last",
        "layers": [1, 4],
        "levels": 3,
        "depth": 3,
        "width": 32,
        "epochs": 1,
        "batch_size": 32,
        "learning_rate": 1e-3,
        "init_sentences": 512,
        "seed": 1,
        "training_seed": 1,
        "max_length": 48,
        "precision": "float32",
    }


def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "flow")
    loaded = selfguide.load(tmp_path / "flow", device="cpu")
    np.testing.assert_array_equal(loaded.encode(SENTENCES), fitted.encode(SENTENCES))
    assert loaded.protocol == fitted.protocol
    assert loaded.name == fitted.name


def test_inputs_are_cut_at_64_tokens():
    assert load_embedder("mini", embedder="flow", read_text=lambda: sentences(400), device="cpu").encoder.max_length == 64


def test_parameters_that_were_changed_after_the_fit(fitted):
    changed = clone(fitted, safe=False)
    changed.flow_ = fitted.flow_
    changed.set_params(depth=2)
    with pytest.raises(InputError, match=r"the fitted flow has \d+ parameters, but 3 levels of depth 2, width 32 have \d+"):
        changed.encode(SENTENCES)


def test_too_few_sentences(encoder, text):
    with pytest.raises(InputError, match="31 sentences were given to fit a flow on vectors of 32; give at least 32"):
        FlowEmbedder(encoder).fit(text[:31])


def test_training_that_diverges(encoder, text):
    with pytest.raises(InputError, match=r"bits per dimension with learning_rate 1000\.0; try a smaller one"):
        FlowEmbedder(encoder, learning_rate=1e3).fit(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "average"}, "pooling 'average' is not known"),
        ({"levels": 6}, "6 levels halves the channels 6 times, but vectors of 32 are not divisible by 64"),
        ({"levels": 0}, "levels is 0; a flow takes 1 or more"),
        ({"depth": 0}, "depth is 0; a flow takes 1 or more"),
        ({"width": -1}, "width is -1; a flow takes 1 or more"),
        ({"epochs": 0}, "epochs is 0; a flow takes 1 or more"),
        ({"batch_size": 0}, "batch_size is 0; a flow takes 1 or more"),
        ({"init_sentences": 1}, "init_sentences is 1; a flow takes 2 or more"),
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0; a flow takes one above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan; a flow takes one above 0"),
        ({"seed": -1}, "seed is -1; a flow takes one from 0 to 4294967295"),
        ({"seed": 2**70}, "a flow takes one from 0 to 4294967295"),
    ],
)
def test_wrong_parameters(encoder, text, options, message):
    with pytest.raises(InputError, match=message):
        FlowEmbedder(encoder, **options)
    with pytest.raises(InputError, match=message):
        FlowEmbedder(encoder).set_params(**options).fit(text)


def test_vectors_that_are_not_finite(tiny_folder, text):
    broken = load_encoder(tiny_folder("bert"))
    with torch.no_grad():
        broken.model.embeddings.LayerNorm.bias[0] = float("nan")
    with pytest.raises(InputError, match="gives a vector with values that are not finite for"):
        FlowEmbedder(broken).fit(text)
