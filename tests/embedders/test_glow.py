import math

import pytest
import torch

from selfguide.embedders.flow import train_flow
from selfguide.embedders.glow import ActNorm, Glow, Shift
from selfguide.errors import InputError


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mixing(dim):
    return numbers(dim, dim, seed=100) + 2 * torch.eye(dim)


def correlated(rows, dim, *, seed=0):
    """Normal vectors whose channels are correlated, and have means and scales of their own."""
    return numbers(rows, dim, seed=seed) @ mixing(dim).T + 3 * numbers(dim, seed=101)


def entropy(dim):
    """Of these vectors, in bits per dimension; no density comes below it."""
    return 0.5 * math.log2(2 * math.pi * math.e) + float(torch.linalg.slogdet(mixing(dim))[1]) / (dim * math.log(2))


def make_flow(dim, *, levels=3, depth=3, width=32, seed=1):
    return Glow(dim, levels=levels, depth=depth, width=width, generator=torch.Generator().manual_seed(seed)).double()


def disturbed(flow, *, seed=9):
    """No parameter stays where the initialization has put it, the zeros of the last layers least of all."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return flow


@pytest.fixture(params=["initialized", "disturbed"])
def flow(request):
    flow = make_flow(16)
    flow.initialize(correlated(100, 16))
    return disturbed(flow) if request.param == "disturbed" else flow


@pytest.mark.parametrize(("dim", "levels"), [(16, 3), (8, 1), (12, 2), (768, 3)])
def test_inverse(dim, levels):
    flow, x = make_flow(dim, levels=levels), correlated(50, dim)
    flow.initialize(x)
    disturbed(flow)
    z, _ = flow(x)
    assert z.shape == x.shape
    assert not torch.allclose(z, x, atol=0.1)
    torch.testing.assert_close(flow.inverse(z), x, rtol=0, atol=1e-10)
    torch.testing.assert_close(flow(flow.inverse(x))[0], x, rtol=0, atol=1e-10)


def test_log_determinant_is_that_of_the_jacobian(flow):
    x = correlated(4, 16, seed=5)
    _, found = flow(x)
    jacobians = [torch.autograd.functional.jacobian(lambda row: flow(row[None])[0][0], row) for row in x]
    expected = torch.stack([torch.linalg.slogdet(jacobian)[1] for jacobian in jacobians])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@torch.no_grad()
def test_the_density_integrates_to_one():
    flow, x = make_flow(2, levels=1), correlated(200, 2)
    flow.initialize(x)
    disturbed(flow)
    side = torch.linspace(-40, 40, 401).double()
    grid = x.mean(dim=0) + x.std(dim=0) * torch.cartesian_prod(side, side)
    cell = x.std(dim=0).prod() * (side[1] - side[0]) ** 2
    assert float(flow.log_probability(grid).exp().sum() * cell) == pytest.approx(1, abs=1e-3)


def test_bits_per_dimension(flow):
    x = correlated(30, 16, seed=5)
    z, log_determinant = flow(x)
    normal = torch.distributions.Normal(torch.zeros(16).double(), torch.ones(16).double())
    expected = -(normal.log_prob(z).sum(dim=1) + log_determinant).mean() / (16 * math.log(2))
    torch.testing.assert_close(flow.bits_per_dimension(x), expected)


def test_initialization_standardizes_every_norm():
    flow, x = make_flow(16), correlated(300, 16)
    flow.initialize(x)
    outputs = {}
    for name, module in flow.named_modules():
        if isinstance(module, ActNorm):
            module.register_forward_hook(lambda norm, inputs, output, name=name: outputs.update({name: output}))
    flow(x)
    assert len(outputs) == 3 * 9
    for output in outputs.values():
        torch.testing.assert_close(output.mean(dim=0), torch.zeros(output.shape[1]).double(), rtol=0, atol=1e-8)
        torch.testing.assert_close(output.std(dim=0, correction=0), torch.ones(output.shape[1]).double(), rtol=0, atol=1e-3)


def test_a_channel_that_does_not_vary():
    flow, x = make_flow(16), correlated(300, 16)
    x[:, 3] = 7
    flow.initialize(x)
    assert flow(x)[0].isfinite().all()


def test_begins_as_norms_and_reversals():
    """The shifts are zero at first, so that z holds the standardized channels: reversed three times, halves leaving."""
    flow, x = make_flow(16), correlated(300, 16)
    flow.initialize(x)
    channels = list(reversed(range(16)))
    first, channels = channels[8:], channels[:8][::-1]
    second, third = channels[4:], channels[:4][::-1]
    standard = (x - x.mean(dim=0)) / x.std(dim=0, correction=0)
    torch.testing.assert_close(flow(x)[0], standard[:, [*first, *second, *third]], rtol=0, atol=1e-4)


def test_the_net_by_loops():
    """(x W' + b) e^3s, and ReLU between the layers."""
    net = disturbed(Shift(4, 5, torch.Generator().manual_seed(1)).double())
    layers = [(net.first, net.first_norm), (net.second, net.second_norm), (net.last, net.last_scale)]

    def layer(row, weight, affine):
        sums = [sum(w * value for w, value in zip(weights, row, strict=True)) for weights in weight.tolist()]
        shifted = zip(sums, affine.bias.tolist(), affine.log_scale.tolist(), strict=True)
        return [(value + bias) * math.exp(3 * scale) for value, bias, scale in shifted]

    for row in numbers(3, 4).tolist():
        values = row
        for weight, affine in layers[:2]:
            values = [max(value, 0) for value in layer(values, weight, affine)]
        expected = layer(values, *layers[2])
        torch.testing.assert_close(net(torch.tensor([row]).double()), torch.tensor([expected]).double())


def trained(x, *, epochs=1, batch_size=32, learning_rate=3e-3, seed=1):
    generator = torch.Generator().manual_seed(seed)
    flow = Glow(x.shape[1], levels=3, depth=3, width=32, generator=generator)
    options = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "init_vectors": 512}
    train_flow(flow, x, **options, generator=generator)
    return flow.requires_grad_(False)


def test_training_comes_near_the_entropy():
    x, fresh = correlated(8000, 8).float(), correlated(4000, 8, seed=1).float()
    untrained = make_flow(8).float().requires_grad_(False)
    untrained.initialize(x)
    flow = trained(x, epochs=6, batch_size=128)
    before, after = (float(model.bits_per_dimension(fresh)) for model in (untrained, flow))
    assert before > entropy(8) + 0.3
    assert entropy(8) - 0.01 < after < entropy(8) + 0.05
    # and z is nearer to N(0, I)
    before, after = (float((torch.cov(model(fresh)[0].T) - torch.eye(8)).norm()) for model in (untrained, flow))
    assert after < before / 2


def test_the_seed_decides():
    x = correlated(200, 8).float()
    first, again, other = (list(trained(x, seed=seed).parameters()) for seed in (1, 1, 2))
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not any(torch.equal(one, two) for one, two in zip(first, other, strict=True))


def test_random_numbers_of_others_are_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    trained(correlated(100, 8).float())
    assert torch.rand(1) == expected


def test_training_that_diverges():
    with pytest.raises(InputError, match=r"bits per dimension with learning_rate 1000\.0; try a smaller one"):
        trained(correlated(200, 8).float(), learning_rate=1e3)


def test_dimensions_that_cannot_be_halved():
    with pytest.raises(InputError, match="3 levels halves the channels 3 times, but vectors of 12 are not divisible by 8"):
        make_flow(12)
