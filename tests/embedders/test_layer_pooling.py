import pytest
import torch

from selfguide.embedders.layer_pooling import LayerPooling, parse_layer_pooling
from selfguide.encoders.states import EncoderStates
from selfguide.errors import InputError

LAYERS = 12


@pytest.mark.parametrize(
    ("name", "layer", "layers", "pooling"),
    [
        ("cls", None, (12,), "cls"),
        ("mean", 0, (0,), "mean"),
        ("max", 3, (3,), "max"),
        ("last-1", None, (12,), "mean"),
        ("last-2", None, (11, 12), "mean"),
        ("last-12", None, tuple(range(1, 13)), "mean"),
        ("first-last", None, (1, 12), "mean"),
        ("embeddings-last", None, (0, 12), "mean"),
    ],
)
def test_names(name, layer, layers, pooling):
    assert parse_layer_pooling(name, layer=layer, layer_count=LAYERS) == LayerPooling(layers, pooling)


@pytest.mark.parametrize(
    ("name", "layer", "words"),
    [
        ("avg", None, "pooling 'avg' is not known; choose one of: cls, mean, max, last-K, first-last, embeddings-last"),
        ("last-0", None, "'last-1' to 'last-12'"),
        ("last-13", None, "'last-1' to 'last-12'"),
        ("last--1", None, "is not known"),
        ("cls", 13, "layer 13 was asked for; this encoder has layers 0 .* to 12"),
        ("mean", -1, "layer -1 was asked for"),
        ("first-last", 3, "'first-last' names its own layers: 1, 12"),
    ],
)
def test_wrong_names(name, layer, words):
    with pytest.raises(InputError, match=words):
        parse_layer_pooling(name, layer=layer, layer_count=LAYERS)


def test_layers_are_averaged_and_padding_never_counts():
    torch.manual_seed(0)
    hidden = tuple(torch.randn(2, 3, 4) for _ in range(3))
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    vectors = LayerPooling((0, 2), "mean").vectors(EncoderStates(hidden, mask))
    for row, length in enumerate((3, 2)):
        tokens = [(hidden[0][row, token] + hidden[2][row, token]) / 2 for token in range(length)]
        torch.testing.assert_close(vectors[row], sum(tokens) / length)
