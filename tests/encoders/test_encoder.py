"""Text to rows, rows to batches, batches to vectors in the order given; and the projection head."""

import itertools
import random

import pytest
import torch
from torch import nn

from selfguide.encoders.encoder import embed_rows, length_sorted_batches
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.projection import PROJECTIONS, make_projection
from selfguide.errors import InputError
from tiny_models import DIM, ENCODERS, POSITIONS, SENTENCES


@pytest.fixture
def encoder(tiny_bert):
    return load_encoder(tiny_bert)


# Rows


def test_tokens_are_those_of_the_tokenizer_one_by_one(encoder):
    assert encoder.tokenize(SENTENCES) == [encoder.tokenizer(sentence)["input_ids"] for sentence in SENTENCES]


def test_no_sentences_give_no_rows(encoder):
    assert encoder.tokenize([]) == [] == encoder.tokenize(())


def test_empty_sentence_is_two_special_tokens(encoder):
    first, last = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    assert encoder.tokenize(["", "   "]) == [[first, last], [first, last]]


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize(("length", "width"), [(None, 3), (7, 7)])
def test_pad(family, tiny_folder, length, width):
    encoder = load_encoder(tiny_folder(family))
    padding = {"bert": 0, "roberta": 1}[family]
    ids, mask = encoder.pad([[5, 6, 7], [8], [9, 10]], length)
    filled = width - 3
    assert ids.tolist() == [
        [5, 6, 7] + [padding] * filled,
        [8, padding, padding] + [padding] * filled,
        [9, 10, padding] + [padding] * filled,
    ]
    assert mask.tolist() == [[1, 1, 1] + [0] * filled, [1, 0, 0] + [0] * filled, [1, 1, 0] + [0] * filled]
    assert ids.dtype == mask.dtype == torch.int64


# Batches


def padded_tokens(rows, batch):
    return len(batch) * max(len(rows[position]) for position in batch)


@pytest.mark.parametrize("seed", range(20))
def test_batches_hold_each_row_once_and_keep_the_budget(seed):
    chance = random.Random(seed)
    rows = [[0] * chance.randint(1, 60) for _ in range(chance.randint(1, 200))]
    budget = chance.choice([1, 20, 64, 500, 100_000])
    batches = length_sorted_batches(rows, budget)
    assert sorted(position for batch in batches for position in batch) == list(range(len(rows)))
    assert all(padded_tokens(rows, batch) <= budget or len(batch) == 1 for batch in batches)
    lengths = [len(rows[position]) for batch in batches for position in batch]
    assert lengths == sorted(lengths, reverse=True)
    # no batch could have taken the first row of the next
    for batch, following in itertools.pairwise(batches):
        assert padded_tokens(rows, [*batch, following[0]]) > budget


def test_no_rows_give_no_batches():
    assert length_sorted_batches([], 100) == []


# Vectors


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@pytest.mark.parametrize("tokens_per_batch", [1, 40, 8192])
def test_vectors_are_those_of_each_sentence_alone(encoder, pooling, tokens_per_batch):
    rows = encoder.tokenize(SENTENCES)
    vectors = embed_rows(encoder, rows, pooling=pooling, tokens_per_batch=tokens_per_batch)
    assert vectors.shape == (len(SENTENCES), DIM) and vectors.dtype == torch.float32 and not vectors.requires_grad
    for row, vector in zip(rows, vectors, strict=True):
        with torch.no_grad():
            states = encoder.model(input_ids=torch.tensor([row])).last_hidden_state[0]
        alone = {"cls": states[0], "mean": states.mean(dim=0), "max": states.amax(dim=0)}[pooling]
        torch.testing.assert_close(vector, alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("tokens_per_batch", [1, 40, 8192])
def test_vectors_come_in_the_order_given(encoder, tokens_per_batch):
    rows = encoder.tokenize(SENTENCES) * 3
    order = random.Random(1).sample(range(len(rows)), len(rows))
    vectors = embed_rows(encoder, rows, tokens_per_batch=tokens_per_batch)
    shuffled = embed_rows(encoder, [rows[position] for position in order], tokens_per_batch=tokens_per_batch)
    torch.testing.assert_close(shuffled, vectors[order], atol=1e-5, rtol=0)
    assert not torch.allclose(shuffled, vectors, atol=1e-2)


def test_no_rows_give_no_vectors(encoder):
    assert embed_rows(encoder, []).shape == (0, DIM)


@pytest.mark.parametrize("is_training", [False, True])
def test_embedding_has_no_dropout_and_leaves_the_mode_as_it_was(encoder, is_training):
    rows = encoder.tokenize(SENTENCES)
    encoder.model.train(is_training)
    assert torch.equal(embed_rows(encoder, rows), embed_rows(encoder, rows))
    assert all(part.training == is_training for part in encoder.model.modules())


def test_longest_rows_are_embedded(encoder):
    rows = encoder.tokenize(["the cat " * POSITIONS])
    assert len(rows[0]) == POSITIONS
    assert embed_rows(encoder, rows).isfinite().all()


# The projection


def head(kind, *, dim=32, width=64, std=0.02, seed=1):
    return make_projection(kind, dim=dim, width=width, std=std, generator=torch.Generator().manual_seed(seed))


def shapes_of(module):
    return [tuple(parameter.shape) for parameter in module.parameters()]


def test_projections_by_kind():
    layers = {
        "mlp": [nn.Linear, nn.GELU, nn.Linear, nn.GELU],
        "tanh": [nn.Linear, nn.Tanh],
    }
    for kind, expected in layers.items():
        assert [type(part) for part in head(kind)] == expected
    assert type(head("none")) is nn.Identity
    assert set(PROJECTIONS) == {*layers, "none"}


def test_unknown_projection_is_refused():
    with pytest.raises(InputError, match="projection 'mpl' is not known; choose one of: mlp, tanh, none"):
        head("mpl")


def test_shapes_of_projections():
    assert shapes_of(head("mlp", dim=32, width=64)) == [(64, 32), (64,), (64, 64), (64,)]
    assert shapes_of(head("tanh", dim=32, width=64)) == [(32, 32), (32,)]
    vectors = torch.randn(3, 32)
    assert head("mlp")(vectors).shape == (3, 64)
    assert head("tanh")(vectors).shape == (3, 32)
    assert head("none")(vectors) is vectors


def test_projection_is_the_formula_of_the_paper():
    module, vectors = head("mlp", std=0.3), torch.randn(3, 32)
    one, _, two, _ = module
    gelu = nn.functional.gelu
    expected = gelu(gelu(vectors @ one.weight.T) @ two.weight.T)
    torch.testing.assert_close(module(vectors), expected)


@pytest.mark.parametrize("kind", ["mlp", "tanh"])
@pytest.mark.parametrize("std", [0.02, 0.3])
def test_weights_are_normal_and_biases_zero(kind, std):
    for layer in head(kind, dim=400, width=500, std=std):
        if isinstance(layer, nn.Linear):
            weights = layer.weight.detach() / std
            assert abs(weights.mean()) < 0.02 and abs(weights.std() - 1) < 0.02
            # a normal distribution has 68.3% and 95.4% of its mass within one and two standard deviations
            within = [(weights.abs() < bound).double().mean().item() for bound in (1, 2)]
            assert within == pytest.approx([0.683, 0.954], abs=0.01)
            assert not layer.bias.any()


@pytest.mark.parametrize("kind", ["mlp", "tanh"])
def test_projection_depends_on_its_generator_alone(kind):
    def weights(seed, chance):
        torch.manual_seed(chance)
        return torch.cat([parameter.flatten() for parameter in head(kind, seed=seed).parameters()])

    assert torch.equal(weights(1, 1), weights(1, 2))
    assert not torch.equal(weights(1, 1), weights(2, 1))


def test_the_two_layers_differ():
    one, _, two, _ = head("mlp", dim=64, width=64)
    assert not torch.equal(one.weight, two.weight)


@pytest.mark.parametrize("family", ENCODERS)
def test_the_core_of_a_tokenizer_gives_the_same_ids(tiny_folder, family):
    encoder = load_encoder(tiny_folder(family), max_length=9)
    texts = ["the cat", "", "a " * 50, "<pad> [MASK] the [PAD] cat", "ünïcödé 猫"]
    assert encoder.tokenize(texts) == encoder._tokenize_plainly(texts)
    assert max(map(len, encoder.tokenize(texts))) == 9
