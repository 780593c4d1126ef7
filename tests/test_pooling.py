"""Pooling against loops and against sentence-transformers; padding never counts."""

import pytest
import torch

from selfguide.pooling import POOLINGS

LENGTHS = [4, 2, 1]
TOKENS, DIM = 4, 5


def states(dtype=torch.float64):
    """All values are below 0, so that a maximum over zeroed padding would show."""
    generator = torch.Generator().manual_seed(3)
    return (-0.1 - torch.rand(len(LENGTHS), TOKENS, DIM, generator=generator, dtype=torch.float64)).to(dtype)


def padding_mask(dtype=torch.int64):
    return torch.tensor([[position < length for position in range(TOKENS)] for length in LENGTHS]).to(dtype)


def cls_loop(sentence, mask):
    return sentence[0]


def mean_loop(sentence, mask):
    kept = [token for token, is_kept in zip(sentence, mask, strict=True) if is_kept]
    return [sum(token[d] for token in kept) / len(kept) for d in range(DIM)]


def max_loop(sentence, mask):
    kept = [token for token, is_kept in zip(sentence, mask, strict=True) if is_kept]
    return [max(token[d] for token in kept) for d in range(DIM)]


LOOPS = {"cls": cls_loop, "mean": mean_loop, "max": max_loop}
every_pooling = pytest.mark.parametrize("name", sorted(LOOPS))


def expected(name, values, mask):
    rows = [LOOPS[name](sentence, kept) for sentence, kept in zip(values.tolist(), mask.tolist(), strict=True)]
    return torch.tensor(rows, dtype=values.dtype)


def with_padding(values, mask, filling):
    return torch.where(mask.bool().unsqueeze(-1), values, filling.to(values.dtype))


def test_every_pooling_has_a_loop():
    assert set(POOLINGS) == set(LOOPS)


@every_pooling
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("mask_dtype", [torch.int64, torch.bool, torch.float32], ids=str)
def test_pooling_equals_loop(name, dtype, mask_dtype):
    pooled = POOLINGS[name](states(dtype), padding_mask(mask_dtype))
    assert pooled.shape == (len(LENGTHS), DIM) and pooled.dtype == dtype
    torch.testing.assert_close(pooled, expected(name, states(dtype), padding_mask()))


@pytest.mark.parametrize("name", ["mean", "max"])
def test_mask_may_have_holes(name):
    mask = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 1]])
    torch.testing.assert_close(POOLINGS[name](states(), mask), expected(name, states(), mask))


@every_pooling
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_pooling_equals_that_of_sentence_transformers(name, dtype):
    from sentence_transformers.sentence_transformer.modules import Pooling

    features = {"token_embeddings": states(dtype), "attention_mask": padding_mask()}
    theirs = Pooling(DIM, pooling_mode=name)(features)["sentence_embedding"]
    torch.testing.assert_close(POOLINGS[name](states(dtype), padding_mask()), theirs)


@every_pooling
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_padding_never_matters(name, dtype):
    generator = torch.Generator().manual_seed(4)
    garbage = 1e4 * torch.randn(states().shape, generator=generator)
    clean, dirty = (with_padding(states(dtype), padding_mask(), filling) for filling in (torch.zeros(()), garbage))
    assert not torch.equal(clean, dirty)
    assert torch.equal(POOLINGS[name](dirty, padding_mask()), POOLINGS[name](clean, padding_mask()))


@pytest.mark.parametrize(
    "name",
    [
        "cls",
        "max",
        "mean",
    ],
)
@pytest.mark.parametrize("filling", [float("nan"), float("inf"), float("-inf")])
def test_padding_that_is_not_finite_never_matters(name, filling):
    dirty = with_padding(states(), padding_mask(), torch.tensor(filling))
    assert torch.equal(POOLINGS[name](dirty, padding_mask()), POOLINGS[name](states(), padding_mask()))


@every_pooling
def test_longer_padding_changes_nothing(name):
    longer = torch.cat([states(), torch.full((len(LENGTHS), 3, DIM), 9.0)], dim=1)
    longer_mask = torch.cat([padding_mask(), torch.zeros(len(LENGTHS), 3, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(POOLINGS[name](longer, longer_mask), POOLINGS[name](states(), padding_mask()))


@every_pooling
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_stays_and_is_close_to_float32(name, dtype):
    pooled = POOLINGS[name](states(dtype), padding_mask())
    assert pooled.dtype == dtype
    full = POOLINGS[name](states(dtype).float(), padding_mask())
    torch.testing.assert_close(pooled.float(), full, rtol=2 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize(
    "name",
    ["cls", "max", "mean"],
)
def test_half_precision_does_not_overflow_over_many_tokens(name):
    large, mask = torch.full((1, 512, 2), 200.0, dtype=torch.float16), torch.ones(1, 512, dtype=torch.int64)
    assert torch.equal(POOLINGS[name](large, mask), large[:, 0])


@every_pooling
def test_gradient_reaches_tokens_and_not_padding(name):
    values = states().requires_grad_()
    POOLINGS[name](values, padding_mask()).sum().backward()
    kept = padding_mask().bool()
    assert torch.equal(values.grad[~kept], torch.zeros_like(values.grad[~kept]))
    torch.testing.assert_close(values.grad.sum(dim=1), torch.ones(len(LENGTHS), DIM, dtype=torch.float64))


@every_pooling
def test_gradient_equals_finite_differences(name):
    mask = padding_mask()
    assert torch.autograd.gradcheck(lambda values: POOLINGS[name](values, mask), (states().requires_grad_(),))
