"""The learning rate against its formula and against transformers, and the groups of the optimiser."""

import pytest
import torch
from torch import nn
from transformers import get_linear_schedule_with_warmup

from selfguide.training.schedule import learning_rate, make_optimizer, set_learning_rate

PEAK = 5e-5


def rates(steps, warmup):
    return [learning_rate(step, steps=steps, warmup=warmup, peak=PEAK) for step in range(steps)]


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 300, 1079])
@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5, 0.99])
def test_rate_is_that_of_transformers(steps, warmup):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = get_linear_schedule_with_warmup(optimizer, int(warmup * steps), steps)
    expected = []
    for _ in range(steps):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates(steps, warmup) == pytest.approx(expected, rel=1e-12, abs=0)


def test_rate_rises_to_the_peak_and_falls_to_nothing():
    """The formula itself, for the paper's 1,079 steps: 107 up, 972 down."""
    found = rates(1079, 0.1)
    assert found[:107] == pytest.approx([PEAK * step / 107 for step in range(107)])
    assert found[107:] == pytest.approx([PEAK * (1079 - step) / 972 for step in range(107, 1079)])
    assert max(found) == found[107] == PEAK
    assert found[0] == 0
    assert 0 < found[-1] == pytest.approx(PEAK / 972)


def test_without_warmup_the_first_step_has_the_peak():
    assert rates(100, 0.0)[0] == PEAK


def module_of():
    module = nn.ModuleDict({"frozen": nn.Linear(3, 3), "dense": nn.Linear(3, 4), "norm": nn.LayerNorm(4)})
    module["frozen"].requires_grad_(False)
    return module


def test_no_decay_on_biases_and_norms_and_nothing_of_what_is_frozen():
    module = module_of()
    optimizer = make_optimizer(module, betas=(0.9, 0.8), weight_decay=0.3, device=torch.device("cpu"))
    decayed, plain = optimizer.param_groups
    assert [id(p) for p in decayed["params"]] == [id(module["dense"].weight)]
    assert {id(p) for p in plain["params"]} == {
        id(p) for p in (module["dense"].bias, module["norm"].weight, module["norm"].bias)
    }
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.3, 0.0)
    assert decayed["betas"] == plain["betas"] == (0.9, 0.8)
    assert decayed["eps"] == 1e-8
    assert isinstance(optimizer, torch.optim.AdamW)


def test_rate_is_set_in_all_groups_and_used():
    module = module_of()
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    optimizer = make_optimizer(module, betas=(0.9, 0.9), weight_decay=0.5, device=torch.device("cpu"))
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    optimizer.step()
    assert all(torch.equal(p, before[name]) for name, p in module.named_parameters())  # no rate is set yet
    set_learning_rate(optimizer, 0.1)
    optimizer.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.1]
    for name, parameter in module.named_parameters():
        shrunk = 0.95 if name == "dense.weight" else 1.0  # 1 - rate x weight decay, on the one matrix that is trained
        torch.testing.assert_close(parameter.detach(), shrunk * before[name])


def test_a_rate_that_is_a_tensor_is_set_in_place():
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(2))], lr=torch.tensor(0.0))
    rate = optimizer.param_groups[0]["lr"]
    set_learning_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == 0.25
