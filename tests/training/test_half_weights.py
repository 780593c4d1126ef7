"""A module called with copies of its weights in half precision gives what autocast gives, gradients included."""

import pytest
import torch
from torch import nn

from selfguide.encoders.loading import load_encoder
from selfguide.guidance import SelfGuidance
from selfguide.training.half_weights import HalfWeights
from tiny_runs import SENTENCES


@pytest.fixture(autouse=True)
def plain_kernels():
    """Some processors announce bf16 for oneDNN and die of it; torch's own kernels run everywhere."""
    was_enabled, *_ = torch.backends.mkldnn.set_flags(_enabled=False)
    yield
    torch.backends.mkldnn.set_flags(_enabled=was_enabled)


def guidance(tiny_folder, family="bert"):
    encoder = load_encoder(str(tiny_folder(family)))
    torch.manual_seed(1)
    module = SelfGuidance(
        encoder.model.eval(),
        nn.Sequential(nn.Linear(encoder.dim, 24), nn.GELU(), nn.Linear(24, encoder.dim)),
        objective="sg-opt",
        temperature=0.05,
        distance_weight=0.1,
        guide=load_encoder(str(tiny_folder(family))).model,
        distance_in_backward=False,
    )
    with torch.no_grad():
        for parameter in module.encoder.parameters():
            parameter.add_(0.01)  # away from the guide, so that there is a distance
    rows = encoder.tokenize(SENTENCES[:6])
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    views = torch.randn(6, 3, encoder.dim, generator=torch.Generator().manual_seed(2))
    return module, (ids, (ids != 0).long(), views)


def step(forward, module, inputs):
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        monitors = forward(*inputs)
    monitors[0].backward()
    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    module.zero_grad()
    return monitors.detach(), gradients


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_monitors_and_gradients_are_those_of_autocast(tiny_folder, family):
    module, inputs = guidance(tiny_folder, family)
    expected, expected_gradients = step(module, module, inputs)
    found, gradients = step(HalfWeights(module, torch.bfloat16), module, inputs)
    assert torch.equal(found, expected) and found[2] > 0
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        if gradient is None or expected_gradients[name] is None:
            assert gradient is expected_gradients[name] is None, name
        else:
            assert torch.equal(gradient, expected_gradients[name]), name
            assert gradient.dtype == torch.float32


def test_every_linear_layer_that_is_trained_is_cast(tiny_folder):
    module, _ = guidance(tiny_folder)
    module.encoder.encoder.layer[0].requires_grad_(False)
    weights = HalfWeights(module, torch.bfloat16).weights
    assert {"projection.0.weight", "projection.2.bias", "encoder.encoder.layer.1.output.dense.bias"} <= weights.keys()
    assert not any("layer.0." in name or "norm" in name.lower() or "embeddings" in name for name in weights)
    assert all(weight is module.get_parameter(name) for name, weight in weights.items())


def test_a_layer_that_is_not_used_has_no_gradient():
    module = nn.Module()
    module.used, module.unused = nn.Linear(2, 1), nn.Linear(2, 1)
    module.forward = lambda inputs: module.used(inputs)[0]
    _, gradients = step(HalfWeights(module, torch.bfloat16), module, [torch.ones(1, 2)])
    assert gradients["unused.weight"] is gradients["unused.bias"] is None
    assert gradients["used.weight"].tolist() == [[1.0, 1.0]] and gradients["used.bias"].tolist() == [1.0]


def test_gradients_are_not_copied_once_more(tiny_folder, monkeypatch):
    """AccumulateGrad takes a gradient as it is if nobody else holds it, and else copies it."""
    made = []
    original = torch._foreach_copy_

    def watched(copies, tensors):
        made.extend(copy.data_ptr() for copy in copies)
        original(copies, tensors)

    monkeypatch.setattr(torch, "_foreach_copy_", watched)
    module, inputs = guidance(tiny_folder)
    half = HalfWeights(module, torch.bfloat16)
    _, gradients = step(half, module, inputs)
    assert all(gradients[name].data_ptr() in made for name in half.weights)
