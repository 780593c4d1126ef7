"""The regulariser against loops and against autograd of the naive formula."""

import pytest
import torch

from selfguide.errors import InputError
from selfguide.objectives import distance

SHAPES = [(3, 4), (5,), (), (2, 3, 2), (1, 1)]


def tensors(seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in SHAPES]


def parameters(seed, dtype=torch.float64):
    return [tensor.requires_grad_() for tensor in tensors(seed, dtype)]


def numbers(nested):
    if isinstance(nested, float):
        yield nested
    else:
        for part in nested:
            yield from numbers(part)


def distance_loop(left, right):
    total = 0.0
    for a, b in zip(left, right, strict=True):
        for x, y in zip(numbers(a.tolist()), numbers(b.tolist()), strict=True):
            total += (x - y) ** 2
    return total


def naive(left, right):
    return sum(((a - b) ** 2).sum() for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)], ids=str)
def test_distance_equals_loop(dtype, tolerance):
    left, right = tensors(1, dtype), tensors(2, dtype)
    result = distance(left, right)
    assert result.shape == () and result.dtype == dtype
    assert result.item() == pytest.approx(distance_loop(left, right), rel=tolerance)
    assert result > 1


def test_distance_of_one_moved_number():
    left = [torch.zeros(2, 2), torch.zeros(3)]
    right = [torch.zeros(2, 2), torch.tensor([0.0, -3.0, 0.0])]
    assert distance(left, right) == 9


@pytest.mark.parametrize("weight", [1.0, 0.1])
def test_gradient_equals_that_of_the_naive_formula(weight):
    ours, theirs, references = parameters(1), parameters(1), tensors(2)
    (weight * distance(ours, references)).backward()
    (weight * naive(theirs, references)).backward()
    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        torch.testing.assert_close(ours_one.grad, theirs_one.grad)
        assert ours_one.grad.any()


def test_gradient_equals_finite_differences():
    references = tensors(2)
    assert torch.autograd.gradcheck(lambda *moved: distance(moved, references), parameters(1))


def test_gradient_adds_up_with_another_loss_and_over_two_passes():
    ours, theirs, references = parameters(1), parameters(1), tensors(2)
    for _ in range(2):
        (distance(ours, references) + sum(x.sum() for x in ours)).backward()
        (naive(theirs, references) + sum(x.sum() for x in theirs)).backward()
    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        torch.testing.assert_close(ours_one.grad, theirs_one.grad)


def test_gradient_of_tensors_that_are_not_contiguous():
    base, other = torch.arange(12.0).view(4, 3).T.requires_grad_(), torch.ones(3, 4)
    distance([base], [other]).backward()
    torch.testing.assert_close(base.grad, 2 * (base - other).detach())


def test_references_get_no_gradient():
    moved, references = parameters(1), parameters(2)
    distance(moved, references).backward()
    assert all(reference.grad is None for reference in references)
    assert all(parameter.grad.any() for parameter in moved)


def test_frozen_parameters_count_and_get_no_gradient():
    moved, references = parameters(1), tensors(2)
    moved[0].requires_grad_(False)
    result = distance(moved, references)
    result.backward()
    assert result.item() == pytest.approx(distance_loop(moved, references))
    assert moved[0].grad is None
    torch.testing.assert_close(moved[1].grad, 2 * (moved[1] - references[1]).detach())


def test_backward_leaves_parameters_and_references_as_they_were():
    moved, references = parameters(1), tensors(2)
    distance(moved, references).backward()
    for after, before in zip(moved + references, tensors(1) + tensors(2), strict=True):
        assert torch.equal(after, before)


def test_at_equality_distance_and_gradient_are_zero():
    moved = parameters(1)
    result = distance(moved, tensors(1))
    result.backward()
    assert result.item() == 0
    assert all(torch.equal(parameter.grad, torch.zeros_like(parameter)) for parameter in moved)


def test_lists_of_different_length_are_refused():
    with pytest.raises(InputError, match="two lists of tensors of the same shapes"):
        distance(tensors(1), tensors(2)[:-1])
