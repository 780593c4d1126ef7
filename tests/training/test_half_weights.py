"""A module called with copies of its weights in half precision gives what autocast gives, gradients included."""

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import AutocastKwargs
from torch import nn

from selfguide.encoders.loading import load_encoder
from selfguide.guidance import SelfGuidance, StepInputs
from selfguide.training.half_weights import HalfWeights
from selfguide.training.stepping import PlainStep
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


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "mpnet", "modernbert"])
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


@pytest.mark.parametrize("family", ["albert", "deberta-v2"])
def test_weights_that_are_used_more_than_once_have_their_gradients_added_up_in_half_precision(tiny_folder, family):
    module, inputs = guidance(tiny_folder, family)
    expected, expected_gradients = step(module, module, inputs)
    found, gradients = step(HalfWeights(module, torch.bfloat16), module, inputs)
    assert torch.equal(found, expected)
    for name, gradient in gradients.items():
        if gradient is not None:
            assert (gradient - expected_gradients[name]).norm() <= 0.01 * expected_gradients[name].norm(), name


def test_a_step_of_training_takes_it(tiny_folder):
    """As a run on CUDA is put together, but for the device."""
    moved = []
    for wrap in (lambda module: None, lambda module: HalfWeights(module, torch.bfloat16)):
        module, (ids, mask, views) = guidance(tiny_folder)
        AcceleratorState._reset_state(reset_partial_state=True)
        handlers = [AutocastKwargs(cache_enabled=False)]
        accelerator = Accelerator(cpu=True, mixed_precision="bf16", kwargs_handlers=handlers)
        prepared, optimizer = accelerator.prepare(module, torch.optim.AdamW(module.parameters(), lr=1e-3))
        take_step = PlainStep(
            accelerator,
            prepared,
            optimizer,
            clip=1.0,
            forward=wrap(prepared),
            add_gradient=module.add_distance_gradient,
        )
        monitors = [take_step([StepInputs(ids, mask, views)]) for _ in range(3)]
        moved.append((torch.stack(monitors), [parameter.detach() for parameter in module.parameters()]))
        AcceleratorState._reset_state(reset_partial_state=True)
    assert torch.equal(moved[0][0], moved[1][0]) and moved[0][0][2, 0] < moved[0][0][0, 0]
    assert all(map(torch.equal, moved[0][1], moved[1][1]))


def test_nothing_to_cast_is_no_error():
    module = nn.Module()
    module.scale = nn.Parameter(torch.ones(1))
    module.forward = lambda inputs: module.scale * inputs
    _, gradients = step(HalfWeights(module, torch.bfloat16), module, [torch.full((1,), 3.0)])
    assert gradients["scale"].item() == 3.0


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
