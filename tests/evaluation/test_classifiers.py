import copy
import random

import pytest
import torch
from torch import nn

from selfguide.evaluation import classifiers
from selfguide.evaluation.classifiers import (
    EarlyStopping,
    Examples,
    Recipe,
    RowSets,
    Split,
    fit,
    initial_parameters,
    shuffled,
    write_gradients,
)

PENALTIES = torch.tensor([1e-5, 1e-3, 1e-1])


@pytest.fixture
def examples():
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(400, 12, generator=generator)
    scores = features[:, :3] + 0.7 * torch.randn(400, 3, generator=generator)
    return Examples(features, scores.argmax(dim=1), 3)


@pytest.fixture
def splits():
    """Of unequal sizes: 6, 6 and 7 batches of 16 an epoch; the last of the first has a single row."""
    generator = torch.Generator().manual_seed(4)
    orders = [torch.randperm(400, generator=generator) for _ in range(3)]
    return [Split(order[:size], order[200 : 230 + size // 10]) for order, size in zip(orders, (81, 95, 99), strict=True)]


def draw(seed):
    return torch.Generator().manual_seed(seed)


def as_module(parameters, hidden):
    weights = [parameter.clone() for parameter in parameters]
    layers = [nn.Linear(weight.shape[1], weight.shape[0]) for weight in weights[::2]]
    for layer, weight, bias in zip(layers, weights[::2], weights[1::2], strict=True):
        layer.weight.data, layer.bias.data = weight, bias
    return nn.Sequential(layers[0], nn.Sigmoid(), layers[1]) if hidden else nn.Sequential(layers[0])


@torch.no_grad()
def share_right(model, examples, rows):
    return (model(examples.features[rows]).argmax(dim=1) == examples.labels[rows]).double().mean().item()


def fit_one(examples, split, penalty, parameters, orders, recipe):
    """One classifier as anyone would train it: a module, autograd, torch's Adam, one batch after the other."""
    model = as_module(parameters, recipe.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate, weight_decay=penalty)
    best, best_accuracy, failures, rounds = None, -1.0, 0, 0
    for orders_of_round in orders:
        rounds += 1
        for order in orders_of_round:
            for start in range(0, len(order), recipe.batch):
                rows = split.train[order[start : start + recipe.batch]]
                loss = nn.functional.cross_entropy(model(examples.features[rows]), examples.labels[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        accuracy = share_right(model, examples, split.validation)
        if accuracy > best_accuracy:
            best, best_accuracy = copy.deepcopy(model), accuracy
        else:
            if failures >= recipe.tenacity:
                break
            failures += 1
    return best, best_accuracy, rounds


@pytest.mark.parametrize("hidden", [0, 8])
@pytest.mark.parametrize("group_bytes", [1, 2**30], ids=["one split at a time", "together"])
def test_the_batch_equals_classifiers_trained_one_after_the_other(examples, splits, hidden, group_bytes, monkeypatch):
    monkeypatch.setattr(classifiers, "CACHE_BYTES", group_bytes)
    recipe = Recipe(hidden=hidden, batch=16, tenacity=2, max_epochs=40, learning_rate=0.01)
    penalties = PENALTIES.repeat(3, 1)
    fitted = fit(examples, splits, penalties, recipe=recipe, generator=draw(7))

    generator = draw(7)
    starts = initial_parameters(examples, penalties.shape, hidden=hidden, generator=generator)
    draws = [torch.rand(4, 3, 99, generator=generator) for _ in range(11)]
    for number, split in enumerate(splits):
        orders = [drawn[:, number, : len(split.train)].argsort(dim=1) for drawn in draws]
        for position, penalty in enumerate(PENALTIES.tolist()):
            start = [parameter[number, position] for parameter in starts]
            model, accuracy, rounds = fit_one(examples, split, penalty, start, orders, recipe)
            assert fitted.accuracy[number, position].item() == accuracy
            assert fitted.rounds[number, position].item() == rounds
            for ours, theirs in zip(fitted.parameters, model.parameters(), strict=True):
                torch.testing.assert_close(ours[number, position], theirs.data, atol=1e-4, rtol=0)
            test = torch.arange(300, 400)
            assert fitted.score(examples, [test] * 3)[number, position].item() == share_right(model, examples, test)
    assert len(set(fitted.rounds.flatten().tolist())) > 2, "else nothing was left out on the way"


@pytest.mark.parametrize("hidden", [0, 5])
def test_gradients_are_those_of_autograd(examples, hidden):
    parameters = initial_parameters(examples, (2, 3), hidden=hidden, generator=draw(1))
    parameters = [parameter + torch.randn(parameter.shape, generator=draw(2)) for parameter in parameters]
    rows = torch.arange(20).view(2, 10)
    weights = torch.rand(2, 1, 1, 10, generator=draw(3))
    targets = torch.eye(3)[examples.labels[rows]].mT.unsqueeze(1) * weights
    gradients = [torch.full_like(parameter, torch.nan) for parameter in parameters]
    write_gradients(parameters, gradients, examples.features[rows], targets, weights)
    for split in range(2):
        for position in range(3):
            model = as_module([parameter[split, position] for parameter in parameters], hidden)
            losses = nn.functional.cross_entropy(
                model(examples.features[rows[split]]), examples.labels[rows[split]], reduction="none"
            )
            (losses * weights[split].flatten()).sum().backward()
            for ours, theirs in zip(gradients, model.parameters(), strict=True):
                torch.testing.assert_close(ours[split, position], theirs.grad, atol=1e-6, rtol=1e-5)


def test_initial_weights_are_spread_as_those_of_linear_and_shared_within_a_split(examples):
    parameters = initial_parameters(examples, (50, 2), hidden=9, generator=draw(1))
    assert [tuple(p.shape) for p in parameters] == [(50, 2, 9, 12), (50, 2, 9), (50, 2, 3, 9), (50, 2, 3)]
    for ours, inputs in zip(parameters, (12, 12, 9, 9), strict=True):
        assert torch.equal(ours[:, 0], ours[:, 1])
        assert not torch.equal(ours[0], ours[1])
        bound = inputs**-0.5  # torch draws weights and biases of a linear layer evenly within this
        assert 0.95 * bound < ours.abs().max().item() <= bound
        assert abs(ours.mean().item()) < 0.1 * bound


def test_each_epoch_has_an_order_of_its_own_with_fillers_last():
    sets = RowSets.of([torch.tensor([3, 5, 8, 9]), torch.tensor([7, 2])], torch.device("cpu"))
    orders = shuffled(sets, torch.rand(20, 2, 4, generator=draw(1)))
    assert orders[:, 0].sort(dim=1).values.tolist() == [[3, 5, 8, 9]] * 20
    assert orders[:, 1, :2].sort(dim=1).values.tolist() == [[2, 7]] * 20
    assert len({tuple(order) for order in orders[:, 0].tolist()}) > 5


def rounds_by_the_rule(scores, tenacity):
    best, failures = -1.0, 0
    for number, score in enumerate(scores, start=1):
        if score > best:
            best = score
        else:
            if failures >= tenacity:
                return number, best
            failures += 1
    return len(scores), best


@pytest.mark.parametrize("tenacity", [0, 1, 5])
def test_the_rule_of_stopping(tenacity):
    chance = random.Random(tenacity)
    scores = torch.tensor([[[chance.randrange(40) / 40 for _ in range(4)] for _ in range(25)] for _ in range(12)]).double()
    stopping = EarlyStopping((25, 4), tenacity=tenacity)
    for score in scores:
        was_active, best = stopping.active.clone(), stopping.best
        gained = stopping.update(score)
        assert torch.equal(gained, was_active & (score > best))
    for split in range(25):
        for position in range(4):
            rounds, best = rounds_by_the_rule(scores[:, split, position].tolist(), tenacity)
            assert (stopping.rounds[split, position].item(), stopping.best[split, position].item()) == (rounds, best)


def test_the_last_round_begins_at_the_most_epochs(examples, splits):
    recipe = Recipe(hidden=0, batch=64, tenacity=1000)
    assert fit(examples, splits, PENALTIES.repeat(3, 1), recipe=recipe, generator=draw(1)).rounds.unique().tolist() == [51]


def test_a_seed_gives_the_same_again_and_another_something_else(examples, splits):
    recipe = Recipe(hidden=4, max_epochs=8)
    first, again, other = (
        fit(examples, splits, PENALTIES.repeat(3, 1), recipe=recipe, generator=draw(seed)) for seed in (1, 1, 2)
    )
    assert all(torch.equal(*both) for both in zip(first.parameters, again.parameters, strict=True))
    assert not torch.equal(first.parameters[0], other.parameters[0])


def test_the_number_of_threads_is_as_before(examples, splits, monkeypatch):
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        fit(examples, splits, PENALTIES.repeat(3, 1), recipe=Recipe(max_epochs=0), generator=draw(1))
        assert torch.get_num_threads() == 2
        monkeypatch.setattr(classifiers, "_adam", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit(examples, splits, PENALTIES.repeat(3, 1), recipe=Recipe(max_epochs=0), generator=draw(1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_gives_what_the_cpu_gives(examples, splits):
    recipe = Recipe(hidden=8, batch=16, tenacity=2, max_epochs=8)
    on_cuda = Examples(examples.features.cuda(), examples.labels.cuda(), 3)
    ours, theirs = (
        fit(data, splits, PENALTIES.repeat(3, 1), recipe=recipe, generator=draw(1)) for data in (on_cuda, examples)
    )
    for left, right in zip(ours.parameters, theirs.parameters, strict=True):
        torch.testing.assert_close(left.cpu(), right, atol=1e-4, rtol=0)
