"""WK pooling against the published algorithm, which factorises the window of every layer of every token."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

import selfguide
from selfguide.embedders import wk
from selfguide.embedders.loading import load_embedder
from selfguide.embedders.wk import WkEmbedder, wk_vectors
from selfguide.encoders.encoder import run_states
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError
from tiny_models import LAYERS, SENTENCES


def weights_by_qr(layers, window):
    """Weights over the layers of one token, from ``(layers, dim)``."""
    alignment, novelty = np.zeros(len(layers)), np.zeros(len(layers))
    for k in range(len(layers)):
        left = layers[k - window : k] if k >= window else layers[:0]
        matrix = np.vstack([left, layers[k + 1 : k + window + 1], layers[k]])
        triangle = np.linalg.qr(matrix.T, mode="r")
        neighbours, own = triangle[:-1, :-1], triangle[:, -1]
        directions = neighbours / np.linalg.norm(neighbours, axis=0)
        agreement = directions.mean(axis=1) @ own[:-1] / np.linalg.norm(own[:-1])
        alignment[k] = 1 / (agreement * len(matrix) * 2)
        novelty[k] = abs(own[-1]) / np.linalg.norm(own)
    weights = alignment / alignment.sum() + novelty / novelty.sum()
    return weights / weights.sum()


def sentence_by_qr(states, window=2):
    """Vector of one sentence from ``(layers, tokens, dim)``, the last token left out."""
    tokens = states.astype(np.float64).swapaxes(0, 1)[:-1]
    vectors = np.array([weights_by_qr(layers, window) @ layers for layers in tokens])
    unit = tokens / np.linalg.norm(tokens, axis=2, keepdims=True)
    # two layers are one pair, of which there is no variance: the tokens count alike
    variances = [np.var(np.diag(layers @ layers.T, 1)) if len(layers) > 2 else 1 for layers in unit]
    return np.array(variances) / np.sum(variances) @ vectors


def random_states(seed, layers, batch, tokens, dim, spread=0.5):
    """States whose layers lie around one vector of the token; the smaller the spread, the more alike they are."""
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(batch, tokens, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(layers, batch, tokens, dim, generator=generator, dtype=torch.float64)
    return common + spread * noise


def mask_of(lengths):
    return (torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)).long()


SHAPES = [(layers, window) for layers in range(2, 14) for window in (1, 2, 3) if window < layers]


@pytest.mark.parametrize(("layers", "window"), SHAPES)
def test_as_by_qr(layers, window):
    lengths = [9, 2, 5, 3]
    states = random_states(layers, layers, len(lengths), max(lengths), dim=16 + layers)
    found = wk_vectors(states, mask_of(lengths), window=window).numpy()
    expected = [sentence_by_qr(states[:, row, :length].numpy(), window) for row, length in enumerate(lengths)]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_as_by_qr_whatever_the_shape(seed):
    chance = np.random.default_rng(seed)
    window = int(chance.integers(1, 4))
    layers, tokens, dim = int(chance.integers(window + 2, 14)), int(chance.integers(2, 20)), int(chance.integers(8, 60))
    states = random_states(seed, layers, 1, tokens, dim, spread=10 ** chance.uniform(-1.5, 0))
    found = wk_vectors(states, torch.ones(1, tokens), window=window)[0].numpy()
    np.testing.assert_allclose(found, sentence_by_qr(states[:, 0].numpy(), window), rtol=1e-9, atol=1e-11)


def test_layers_that_are_nearly_alike():
    """The squared sines are about 1e-8, which products in float32 would not show."""
    tokens = random_states(1, 9, 1, 20, 64, spread=1e-4)[:, 0].float().double().transpose(0, 1)
    found = wk.layer_weights(wk.layer_cosines(tokens), 2).T
    np.testing.assert_allclose(found, [weights_by_qr(layers, 2) for layers in tokens.numpy()], rtol=1e-6)


@pytest.fixture(scope="module")
def states_of():
    """States of each sentence, one at a time: arrays ``(layers, tokens, dim)``."""

    @torch.no_grad()
    def run(encoder, sentences):
        encoder.model.eval()
        batches = [encoder.pad(encoder.tokenize([sentence])) for sentence in sentences]
        return [torch.cat(run_states(encoder.model, *batch).hidden).numpy() for batch in batches]

    return run


@pytest.mark.parametrize(("family", "window", "first_layer"), [("bert", 2, 1), ("bert", 1, 2), ("roberta", 2, 0)])
def test_tiny_encoders(tiny_folder, states_of, family, window, first_layer):
    encoder = load_encoder(tiny_folder(family))
    vectors = WkEmbedder(encoder, window=window, first_layer=first_layer).encode(SENTENCES)
    expected = [sentence_by_qr(states[first_layer:], window) for states in states_of(encoder, SENTENCES)]
    # the sum of small cosines of either sign that is divided by makes more of the rounding in a batch
    np.testing.assert_allclose(vectors, expected, atol=2e-4)


def test_the_bundled_encoder(states_of):
    encoder = load_encoder("mini")
    sentences = ["Somebody tunes a banjo badly.", "The stock fell by 3% on Monday, the third such loss.", "Yes."]
    states = states_of(encoder, sentences)
    for array in states:  # layers 4 to 6: the middle one has no left neighbours
        found = wk_vectors(torch.from_numpy(array[4:]).unsqueeze(1), torch.ones(1, array.shape[1]))[0]
        np.testing.assert_allclose(found, sentence_by_qr(array[4:]), rtol=2e-6, atol=1e-7)  # a float32 is known to 6e-8
    expected = [sentence_by_qr(array[4:]) for array in states]
    np.testing.assert_allclose(load_embedder("mini", embedder="wk", device="cpu").encode(sentences), expected, atol=2e-4)


def test_padding_and_the_last_token_never_count():
    states, lengths = random_states(3, 5, 2, 6, 12), [6, 4]
    vectors = wk_vectors(states, mask_of(lengths))
    changed = states.clone()
    changed[:, 1, 4:] = float("nan")
    changed[:, 0, 5], changed[:, 1, 3] = float("inf"), 1e30
    torch.testing.assert_close(wk_vectors(changed, mask_of(lengths)), vectors)
    torch.testing.assert_close(wk_vectors(states[:, 1:, :4], mask_of([4])), vectors[1:])
    on_the_left = torch.cat([changed[:, 1:, 4:], states[:, 1:, :4]], dim=2)
    torch.testing.assert_close(wk_vectors(on_the_left, torch.tensor([[0, 0, 1, 1, 1, 1]])), vectors[1:])
    changed = states.clone()
    changed[:, :, 0] *= -1
    assert (wk_vectors(changed, mask_of(lengths)) - vectors).abs().amax(dim=1).min() > 1e-3


def test_parts_of_a_batch(monkeypatch):
    states, mask = random_states(4, 6, 7, 5, 12), mask_of([5, 2, 3, 4, 5, 2, 5])
    whole = wk_vectors(states, mask)
    for tokens in (1, 11, 20):
        monkeypatch.setattr(wk, "TOKENS_AT_ONCE", {"cpu": tokens})
        torch.testing.assert_close(wk_vectors(list(states), mask), whole)


def test_float32_and_half_precision():
    states, mask = random_states(5, 9, 2, 6, 64), mask_of([6, 5])
    for dtype in (torch.float32, torch.bfloat16):
        rounded = states.to(dtype)
        found = wk_vectors(rounded, mask)
        assert found.dtype == dtype
        torch.testing.assert_close(found, wk_vectors(rounded.double(), mask).to(dtype))


def test_layers_all_alike_give_the_mean_of_the_tokens():
    states = random_states(6, 1, 2, 5, 8).expand(4, -1, -1, -1)
    vectors = wk_vectors(states, mask_of([5, 3]))
    torch.testing.assert_close(vectors[0], states[0, 0, :4].mean(dim=0))
    torch.testing.assert_close(vectors[1], states[0, 1, :2].mean(dim=0))


def test_a_neighbour_that_is_there_twice_counts_once_in_the_span():
    states = random_states(7, 6, 1, 1, 12)[:, 0, 0]
    states[3] = 2 * states[2]
    weights = wk.layer_weights(wk.layer_cosines(states.unsqueeze(0)), 2)[:, 0].numpy()
    layers, unit = states.numpy(), (states / states.norm(dim=1, keepdim=True)).numpy()
    alignment, novelty = np.zeros(6), np.zeros(6)
    for k, neighbours in enumerate([[1, 2], [2, 3], [0, 1, 3, 4], [1, 2, 4, 5], [2, 3, 5], [3, 4]]):
        span = layers[neighbours].T
        projection = span @ (np.linalg.pinv(span, rcond=1e-9) @ unit[k])
        novelty[k] = np.linalg.norm(unit[k] - projection)
        mean_cosine = (unit[neighbours] @ unit[k]).mean()
        alignment[k] = np.linalg.norm(projection) / (2 * (len(neighbours) + 1) * mean_cosine)
    assert novelty[2:4].max() < 1e-9
    np.testing.assert_allclose(weights, alignment / alignment.sum() / 2 + novelty / novelty.sum() / 2, atol=1e-9)


@pytest.mark.parametrize("length", [1, 2])
def test_a_single_token(length):
    states = random_states(8, 5, 1, length, 12)
    layers = states[:, 0, 0].numpy()
    expected = weights_by_qr(layers, 2) @ layers
    np.testing.assert_allclose(wk_vectors(states, torch.ones(1, length))[0], expected, rtol=1e-10)


def test_states_without_a_direction():
    states = random_states(9, 5, 4, 3, 12)
    states[:, 0] = 0
    states[2, 1] = 0
    states[:, 2] = torch.eye(12, dtype=torch.float64)[:5].unsqueeze(1)  # at right angles: no alignment
    states[:, 3, 0] = 0
    vectors = wk_vectors(states, torch.ones(4, 3))
    assert vectors.isfinite().all()
    assert not vectors[0].any()
    torch.testing.assert_close(vectors[2], states[:, 2, 0].mean(dim=0))


def test_odd_sentences(tiny_bert):
    embedder = load_embedder(tiny_bert, embedder="wk", parameters={"first_layer": 1}, device="cpu")
    odd = ["", "bird", "the " * 500]
    assert np.isfinite(embedder.encode(odd)).all()
    np.testing.assert_allclose(embedder.encode(odd)[0], embedder.encode([""])[0], atol=1e-5)


def test_parameters_are_named_and_saved(tiny_bert, tmp_path):
    embedder = WkEmbedder(load_encoder(tiny_bert), window=1, first_layer=2)
    assert embedder.name == f"{tiny_bert.name}/wk"
    assert {"pooling": "wk", "window": 1, "first_layer": 2}.items() <= embedder.protocol.items()
    assert clone(embedder).parameters == {"window": 1, "first_layer": 2}
    embedder.save(tmp_path / "saved")
    loaded = selfguide.load(tmp_path / "saved", device="cpu")
    assert isinstance(loaded, WkEmbedder)
    np.testing.assert_array_equal(loaded.encode(SENTENCES), embedder.encode(SENTENCES))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, r"first_layer 4 was asked for; this encoder has layers 0 \(embeddings\) to 4, .* 3 of them: choose 0 to 2"),
        ({"first_layer": -1}, "first_layer -1 was asked for"),
        ({"first_layer": 4, "window": 1}, "window 1 needs 2 of them: choose 0 to 3"),
        ({"window": 0}, f"window 0 was asked for; for an encoder with {LAYERS} layers choose 1 to {LAYERS}"),
        ({"window": 5}, "window 5 was asked for"),
    ],
)
def test_wrong_parameters(tiny_bert, parameters, words):
    with pytest.raises(InputError, match=words):
        WkEmbedder(load_encoder(tiny_bert), **parameters)
    embedder = WkEmbedder(load_encoder(tiny_bert), first_layer=1)
    with pytest.raises(InputError, match=words):
        embedder.set_params(**(parameters or {"first_layer": 4})).encode(SENTENCES)


@pytest.mark.slow
def test_the_published_score(shared):
    """The paper has 16.07 for BERT-base."""
    bert = shared / "encoders" / "bert-base-uncased"
    rows = selfguide.evaluate(bert, embedder="wk", tasks="STS-B", data=str(shared / "data"), progress=False)
    assert [row.value for row in rows if row.metric == "spearman"] == pytest.approx([16.07], abs=0.1)
