"""The guide: which layers a text names, views against one sentence at a time, and that nothing moves the guide."""

import pytest
import torch

from selfguide.encoders.encoder import run_states
from selfguide.encoders.guide import Guide, parse_layers, pooled_layers
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError
from selfguide.guidance import SelfGuidance
from tiny_models import DIM, LAYERS, SENTENCES

POOLED_BY_HAND = {
    "cls": lambda states: states[0],
    "mean": lambda states: sum(states) / len(states),
    "max": lambda states: torch.stack([column.max() for column in states.T]),
}


@pytest.fixture
def encoder(tiny_bert):
    return load_encoder(tiny_bert)


# Layers


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("all", tuple(range(13))),
        ("0-12", tuple(range(13))),
        ("0-", tuple(range(13))),
        ("4-", (4, 5, 6, 7, 8, 9, 10, 11, 12)),
        ("4-6", (4, 5, 6)),
        ("5-5", (5,)),
        ("0", (0,)),
        ("12", (12,)),
        ("0,1,12", (0, 1, 12)),
        (" 0, 3-5 ,12", (0, 3, 4, 5, 12)),
        ("12,0", (12, 0)),
    ],
)
def test_layers_that_are_understood(text, layers):
    assert parse_layers(text, 12) == layers


@pytest.mark.parametrize(
    "text", ["", "some", "13", "0-13", "-1", "-", "1,", ",", "6-4", "1,1", "0-3,2", "all,1", "1.5", "1-2-3", "1;2"]
)
def test_layers_that_are_not_understood(text):
    expected = f"layers '{text}' is not understood; this encoder has layers 0 to 12: give 'all', a range such as '4-12' or"
    with pytest.raises(InputError, match=expected):
        parse_layers(text, 12)


@pytest.mark.parametrize("number", [-1, LAYERS + 1])
def test_states_have_no_other_layers(encoder, number):
    states = run_states(encoder.model, *encoder.pad(encoder.tokenize(["cat"])))
    with pytest.raises(InputError, match=f"layer {number} was asked for; this encoder has layers 0 to {LAYERS}"):
        states.layer(number)


# Views


def views_by_hand(encoder, rows, layers, pooling):
    views = torch.empty(len(rows), len(layers), DIM)
    for number, row in enumerate(rows):
        hidden = encoder.model(input_ids=torch.tensor([row]), output_hidden_states=True).hidden_states
        for place, layer in enumerate(layers):
            views[number, place] = POOLED_BY_HAND[pooling](hidden[layer][0])
    return views


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@pytest.mark.parametrize("layers", [tuple(range(LAYERS + 1)), (4, 0, 2), (1,)])
@torch.no_grad()
def test_views_are_pooled_states_of_each_sentence_alone(encoder, pooling, layers):
    rows = encoder.tokenize(SENTENCES)
    guide = Guide(encoder, layers=layers, pooling=pooling)
    expected = views_by_hand(encoder, rows, layers, pooling)
    views = guide.views(*encoder.pad(rows))
    assert views.dtype == torch.float32 and not views.requires_grad
    torch.testing.assert_close(views, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(guide.views_of_rows(rows), expected, atol=1e-5, rtol=0)


def test_pooled_layers_keep_the_gradient(encoder):
    states = run_states(encoder.model, *encoder.pad(encoder.tokenize(SENTENCES)))
    assert pooled_layers(states, (0, 4), "mean").requires_grad


@pytest.mark.parametrize("tokens_per_batch", [1, 30, 8192])
def test_views_of_rows_come_in_the_order_given(encoder, tokens_per_batch):
    rows = encoder.tokenize(SENTENCES)
    guide = Guide(encoder, layers=(0, 4), pooling="max")
    views = guide.views_of_rows(rows, tokens_per_batch=tokens_per_batch)
    backwards = guide.views_of_rows(rows[::-1], tokens_per_batch=tokens_per_batch)
    torch.testing.assert_close(views, backwards.flip(0), atol=1e-5, rtol=0)
    torch.testing.assert_close(views, guide.views(*encoder.pad(rows)), atol=1e-5, rtol=0)
    assert not torch.allclose(views, views.flip(0), atol=1e-2)


def test_views_of_no_rows(encoder):
    assert Guide(encoder, layers=(0, 4), pooling="max").views_of_rows([]).shape == (0, 2, DIM)


# Dropout


@pytest.mark.parametrize("was_training", [False, True])
def test_guide_is_the_same_function_at_every_call(encoder, was_training):
    encoder.model.train(was_training)
    guide = Guide(encoder, layers=(0, 4), pooling="mean")
    inputs = encoder.pad(encoder.tokenize(SENTENCES))
    assert torch.equal(guide.views(*inputs), guide.views(*inputs))
    assert encoder.model.training == was_training and not guide.has_dropout


def test_guide_with_dropout_differs_from_call_to_call(encoder):
    guide = Guide(encoder, layers=(0, 4), pooling="mean", dropout=True)
    inputs = encoder.pad(encoder.tokenize(SENTENCES))
    one, two = guide.views(*inputs), guide.views(*inputs)
    assert all(not torch.allclose(one[:, layer], two[:, layer], atol=1e-3) for layer in (0, 1))
    assert guide.has_dropout and not encoder.model.training


@pytest.mark.parametrize("family", ["modernbert", "albert"])
def test_families_without_dropout_give_the_same_views_with_it(tiny_folder, family):
    """As docs/encoders.md says of ModernBERT and of ALBERT v2, whose settings are the defaults of transformers."""
    encoder = load_encoder(tiny_folder(family))
    guide = Guide(encoder, layers=(0, 4), pooling="mean", dropout=True)
    inputs = encoder.pad(encoder.tokenize(SENTENCES))
    assert torch.equal(guide.views(*inputs), guide.views(*inputs))


# The guide is a copy


def test_training_the_encoder_leaves_the_guide_as_it_was(encoder):
    guide = Guide(encoder, layers=(0, 4), pooling="mean")
    inputs = encoder.pad(encoder.tokenize(SENTENCES))
    before = guide.views(*inputs)
    with torch.no_grad():
        for parameter in encoder.model.parameters():
            parameter.mul_(1.5)
    assert torch.equal(guide.views(*inputs), before)
    assert not torch.allclose(Guide(encoder, layers=(0, 4), pooling="mean").views(*inputs), before, atol=1e-2)


def test_guide_takes_no_gradient_and_leaves_the_encoder_its_own(encoder):
    guide = Guide(encoder, layers=(0, 4), pooling="mean")
    assert not any(parameter.requires_grad for parameter in guide.model.parameters())
    assert all(parameter.requires_grad for parameter in encoder.model.parameters())


def test_guide_stays_without_dropout_when_the_module_is_trained(encoder):
    """The released code lost this: its training loop put the guide back into training mode."""
    guide = Guide(encoder, layers=(0, 4), pooling="mean")
    module = SelfGuidance(
        encoder.model,
        torch.nn.Identity(),
        objective="sg-opt",
        temperature=0.05,
        distance_weight=0.1,
        guide=guide.model,
    )
    module.train()
    assert encoder.model.training and not any(part.training for part in guide.model.modules())
    names = {id(parameter) for parameter in module.parameters()}
    assert not any(id(parameter) in names for parameter in guide.model.parameters())


def test_the_gradient_of_the_distance_is_the_same_within_the_backward_pass_and_after_it(encoder):
    guide = Guide(encoder, layers=(0, 4), pooling="mean")
    with torch.no_grad():
        for number, parameter in enumerate(encoder.model.parameters()):
            parameter += 0.01 * (number + 1)  # away from the guide
    encoder.model.eval()  # without dropout, so that both see the same
    ids, mask = encoder.pad(encoder.tokenize(["the cat sat", "a dog ran home", "rain"]))
    views = torch.randn(3, 2, encoder.dim, generator=torch.Generator().manual_seed(1))
    found = {}
    for within in (True, False):
        module = SelfGuidance(
            encoder.model,
            torch.nn.Identity(),
            objective="sg-opt",
            temperature=0.05,
            distance_weight=0.1,
            guide=guide.model,
            distance_in_backward=within,
        )
        module.zero_grad()
        monitors = module(ids, mask, views)
        monitors[0].backward()
        if not within:
            module.add_distance_gradient()
        found[within] = [monitors.detach(), *(p.grad.clone() for p in encoder.model.parameters())]
    assert found[True][0][2] > 0, "the distance"
    for ours, plain in zip(found[False], found[True], strict=True):
        torch.testing.assert_close(ours, plain)
