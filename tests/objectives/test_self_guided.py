"""The contrastive objectives against loops over plain Python floats, their identities, gradients, edges and errors."""

import inspect
import math
import re

import pytest
import torch

from selfguide import objectives
from selfguide.errors import InputError
from selfguide.objectives import self_guided

BATCH, LAYERS, DIM = 4, 3, 5
NOT_CONTRASTIVE = {"distance"}  # has its own file


# The oracles: the formulas of the paper, one term at a time. `same[i][j]` says that j is no negative of i.


def logit(u, v, temperature):
    dot = math.fsum(a * b for a, b in zip(u, v, strict=True))
    return dot / math.sqrt(math.fsum(a * a for a in u)) / math.sqrt(math.fsum(b * b for b in v)) / temperature


def term(positive, negatives):
    """-log(exp(positive) / (exp(positive) + sum of exp(negatives))), with the largest exponent taken out."""
    largest = max([positive, *negatives])
    return math.log(math.fsum(math.exp(x - largest) for x in [positive, *negatives])) + largest - positive


def sg_loop(anchors, views, temperature, same):
    points = list(enumerate(anchors)) + list(enumerate(views))  # (sentence, vector)
    terms = []
    for m, (i, x) in enumerate(points):
        negatives = []
        for n, (j, y) in enumerate(points):
            if n != m and i == j:
                positive = logit(x, y, temperature)
            elif n != m and not same[i][j]:
                negatives.append(logit(x, y, temperature))
        terms.append(term(positive, negatives))
    return sum(terms) / len(terms)


def opt1_loop(anchors, views, temperature, same):
    terms = []
    for i, anchor in enumerate(anchors):
        negatives = []
        for j in range(len(anchors)):
            if j != i and not same[i][j]:
                negatives.append(logit(anchor, views[j], temperature))
                negatives.append(logit(anchor, anchors[j], temperature))
        terms.append(term(logit(anchor, views[i], temperature), negatives))
    return sum(terms) / len(terms)


def opt2_loop(anchors, views, temperature, same):
    terms = []
    for i, anchor in enumerate(anchors):
        negatives = []
        for j in range(len(anchors)):
            if j != i and not same[i][j]:
                negatives.append(logit(anchor, views[j], temperature))
        terms.append(term(logit(anchor, views[i], temperature), negatives))
    return sum(terms) / len(terms)


def sg_opt_loop(anchors, views, temperature, same):
    terms = []
    for i, anchor in enumerate(anchors):
        for k in range(len(views[i])):
            negatives = []
            for m in range(len(anchors)):
                if m != i and not same[i][m]:
                    for n in range(len(views[m])):
                        negatives.append(logit(anchor, views[m][n], temperature))
            terms.append(term(logit(anchor, views[i][k], temperature), negatives))
    return sum(terms) / len(terms)


ORACLES = {
    "bt": sg_loop,
    "opt1": opt1_loop,
    "opt2": opt2_loop,
    "sg": sg_loop,
    "sg_opt": sg_opt_loop,
    "simcse": opt2_loop,
}
ALL_LAYERS = {"sg_opt"}
every_objective = pytest.mark.parametrize("name", sorted(ORACLES))


def without_oracle(names):
    return set(names) - set(ORACLES) - NOT_CONTRASTIVE


def vectors(name, *, kind="spread", dtype=torch.float64):
    """Anchors and views; those that are near parallel or opposite reach logits of nearly +-1 / temperature."""
    generator = torch.Generator().manual_seed(11)
    anchors = torch.randn(BATCH, DIM, generator=generator, dtype=torch.float64)
    views = torch.randn(BATCH, LAYERS, DIM, generator=generator, dtype=torch.float64)
    if kind == "near_parallel":
        direction = torch.randn(DIM, generator=generator, dtype=torch.float64)
        anchors, views = direction + 0.1 * anchors, direction + 0.1 * views
        views[1] *= -1  # a positive on the far side: a loss of about 2 / temperature
        anchors[3] *= -1
        views[3] *= -1
    return anchors.to(dtype), (views if name in ALL_LAYERS else views[:, 1]).to(dtype)


def duplicates(*, diagonal=False):
    """Sentences 0 and 2 are the same text; whether a sentence counts as its own duplicate must not matter."""
    mask = torch.eye(BATCH, dtype=torch.bool) if diagonal else torch.zeros(BATCH, BATCH, dtype=torch.bool)
    mask[0, 2] = mask[2, 0] = True
    return mask


MASKS = {"no_mask": None, "duplicates": duplicates(), "duplicates_and_diagonal": duplicates(diagonal=True)}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def value(name, anchors, views, *, temperature=0.05, mask=None):
    return getattr(objectives, name)(anchors, views, temperature=temperature, mask=mask)


def oracle_value(name, anchors, views, temperature, mask):
    same = torch.zeros(BATCH, BATCH) if mask is None else mask
    return ORACLES[name](anchors.tolist(), views.tolist(), temperature, same.tolist())


# Loop oracles


@every_objective
@every_mask
@pytest.mark.parametrize("temperature", [0.5, 0.05, 0.01])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["spread", "near_parallel"])
def test_objective_equals_its_loop(name, mask, temperature, dtype, kind):
    anchors, views = vectors(name, kind=kind, dtype=dtype)
    loss = value(name, anchors, views, temperature=temperature, mask=mask)
    expected = oracle_value(name, anchors, views, temperature, mask)
    assert loss.shape == () and loss.dtype == dtype
    # float32: a rounding error of the cosine, over the temperature; float64: torch's softplus is the identity past 20
    tolerance = {"rel": 1e-6, "abs": 5e-7 / temperature} if dtype == torch.float32 else {"rel": 1e-9, "abs": 1e-12}
    assert loss.item() == pytest.approx(expected, **tolerance)


@every_objective
def test_near_parallel_case_has_extreme_logits_and_no_overflow(name):
    anchors, views = vectors(name, kind="near_parallel")
    flat = views.reshape(-1, DIM).tolist()
    logits = [logit(anchor, view, 0.01) for anchor in anchors.tolist() for view in flat]
    assert min(logits) < -95 and max(logits) > 95
    assert 10 < oracle_value(name, anchors, views, 0.01, None) < 200


@every_objective
def test_mask_of_the_loop_case_matters(name):
    anchors, views = vectors(name)
    plain, masked = (oracle_value(name, anchors, views, 0.5, mask) for mask in (None, duplicates()))
    assert masked < plain - 0.01
    assert value(name, anchors, views, mask=duplicates().int()) == value(name, anchors, views, mask=duplicates())


def test_every_objective_of_the_catalogue_has_an_oracle():
    assert without_oracle(objectives.__all__) == set()
    assert set(objectives.__all__) == set(ORACLES) | NOT_CONTRASTIVE


def test_objective_without_oracle_is_found():
    assert without_oracle([*objectives.__all__, "opt4"]) == {"opt4"}


def test_every_function_of_the_module_is_in_the_catalogue():
    functions = inspect.getmembers(self_guided, inspect.isfunction)
    own = {name for name, function in functions if function.__module__ == self_guided.__name__ and name[0] != "_"}
    assert own and own <= set(objectives.__all__)


# Identities


def test_bt_is_sg():
    assert objectives.bt is objectives.sg


@every_mask
def test_sg_opt_with_one_layer_is_opt2(mask):
    anchors, views = vectors("opt2")
    one_layer = value("sg_opt", anchors, views.unsqueeze(1), mask=mask)
    torch.testing.assert_close(one_layer, value("opt2", anchors, views, mask=mask))


@every_mask
def test_sg_is_opt1_from_both_sides(mask):
    anchors, views = vectors("sg")
    both_sides = value("opt1", anchors, views, mask=mask) + value("opt1", views, anchors, mask=mask)
    torch.testing.assert_close(value("sg", anchors, views, mask=mask), both_sides / 2)


@pytest.mark.parametrize("temperature", [0.5, 0.05, 0.01])
@pytest.mark.parametrize(
    ("name", "directions"),
    [("simcse", ("query_to_doc",)), ("opt2", ("query_to_doc",)), ("opt1", ("query_to_doc", "query_to_query"))],
)
def test_objective_is_a_ranking_loss_of_sentence_transformers(name, directions, temperature):
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    theirs = MultipleNegativesRankingLoss(model=None, scale=1 / temperature, directions=directions)
    anchors, views = vectors(name)
    expected = theirs.compute_loss_from_embeddings([anchors, views], labels=None)
    torch.testing.assert_close(value(name, anchors, views, temperature=temperature), expected)


@every_objective
@every_mask
def test_order_of_the_batch_does_not_matter(name, mask):
    anchors, views = vectors(name)
    order = torch.tensor([2, 0, 3, 1])
    shuffled_mask = None if mask is None else mask[order][:, order]
    shuffled = value(name, anchors[order], views[order], mask=shuffled_mask)
    torch.testing.assert_close(shuffled, value(name, anchors, views, mask=mask))


@every_objective
def test_order_of_one_side_alone_matters(name):
    anchors, views = vectors(name)
    assert abs(value(name, anchors, views.roll(1, dims=0)) - value(name, anchors, views)) > 0.1


@every_objective
def test_lengths_of_the_vectors_do_not_matter(name):
    anchors, views = vectors(name)
    generator = torch.Generator().manual_seed(5)
    longer, other = (0.1 + 10 * torch.rand(*x.shape[:-1], 1, generator=generator) for x in (anchors, views))
    torch.testing.assert_close(value(name, anchors * longer, views * other), value(name, anchors, views))


# Half precision


@every_objective
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["spread", "near_parallel"])
def test_half_precision_is_raised_to_float32(name, dtype, kind):
    anchors, views = vectors(name, kind=kind, dtype=dtype)
    anchors.requires_grad_()
    loss = value(name, anchors, views, temperature=0.01)
    assert loss.dtype == torch.float32
    assert loss == value(name, anchors.float(), views.float(), temperature=0.01)
    loss.backward()
    assert anchors.grad.dtype == dtype and anchors.grad.isfinite().all() and anchors.grad.any()


@every_objective
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_does_not_reach_the_objective(name, dtype):
    anchors, views = vectors(name, kind="near_parallel", dtype=dtype)
    outside = value(name, anchors, views, temperature=0.01)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = value(name, anchors, views, temperature=0.01)
    assert inside.dtype == torch.float32
    assert inside == outside


# Gradients


@every_objective
def test_views_without_gradient_get_none_and_anchors_get_one(name):
    anchors, views = vectors(name, dtype=torch.float32)
    anchors.requires_grad_()
    value(name, anchors, views, temperature=0.5).backward()
    assert views.grad is None
    assert (anchors.grad.norm(dim=1) > 1e-3).all()


@every_objective
def test_projected_views_get_a_gradient(name):
    anchors, views = vectors(name, dtype=torch.float32)
    views.requires_grad_()
    value(name, anchors, views, temperature=0.5).backward()
    assert anchors.grad is None
    assert (views.grad.flatten(1).norm(dim=1) > 1e-3).all()


@every_objective
@every_mask
def test_gradient_equals_finite_differences(name, mask):
    inputs = tuple(x.requires_grad_() for x in vectors(name))
    assert torch.autograd.gradcheck(lambda a, v: value(name, a, v, temperature=0.5, mask=mask), inputs)


# No negatives


@every_objective
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("batch", "mask"),
    [(1, None), (1, torch.tensor([[False]])), (1, torch.tensor([[True]])), (4, torch.ones(4, 4).bool())],
    ids=["one_sentence", "one_sentence_unmarked", "one_sentence_marked", "all_masked"],
)
def test_without_negatives_loss_and_gradients_are_zero(name, dtype, batch, mask):
    anchors, views = (x[:batch].clone().requires_grad_() for x in vectors(name, kind="near_parallel", dtype=dtype))
    loss = value(name, anchors, views, temperature=0.01, mask=mask)
    loss.backward()
    assert loss.item() == 0
    for gradient in (anchors.grad, views.grad):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@every_objective
def test_one_sentence_without_negatives_does_not_disturb_the_others(name):
    anchors, views = vectors(name)
    mask = torch.zeros(BATCH, BATCH, dtype=torch.bool)
    mask[0] = mask[:, 0] = True
    loss = value(name, anchors, views, mask=mask)
    others = value(name, anchors[1:], views[1:])
    torch.testing.assert_close(loss, others * (BATCH - 1) / BATCH)


# Errors


@every_objective
@pytest.mark.parametrize("shape", [(DIM,), (BATCH, LAYERS, DIM)], ids=str)
def test_anchors_of_wrong_rank_are_refused(name, shape):
    _, views = vectors(name)
    with pytest.raises(InputError, match=re.escape(f"anchors of shape {shape} and views of shape {tuple(views.shape)}")):
        value(name, torch.ones(shape), views)


@every_objective
def test_views_of_wrong_rank_are_refused(name):
    anchors, views = vectors(name)
    wrong = views[:, 0] if name in ALL_LAYERS else views.unsqueeze(1)
    taken = "(batch, layers, dim)" if name in ALL_LAYERS else "(batch, dim)"
    with pytest.raises(InputError, match=re.escape(f"takes anchors (batch, dim) and views {taken}")):
        value(name, anchors, wrong)


@every_objective
@pytest.mark.parametrize("cut", [lambda x: x[:-1], lambda x: x[:1], lambda x: x[..., :-1], lambda x: x[..., :1]])
def test_other_batch_or_dim_is_refused(name, cut):
    anchors, views = vectors(name)
    with pytest.raises(InputError, match=r"anchors \(4, 5\) and views .* differ in batch or dim"):
        value(name, anchors, cut(views))
    with pytest.raises(InputError, match="differ in batch or dim"):
        value(name, cut(anchors), views)


@every_objective
@pytest.mark.parametrize("shape", [(BATCH,), (1, BATCH), (BATCH, LAYERS), (BATCH, BATCH, 1)], ids=str)
def test_mask_of_wrong_shape_is_refused(name, shape):
    anchors, views = vectors(name)
    with pytest.raises(InputError, match=re.escape(f"mask of shape {shape} was given; it must be (4, 4)")):
        value(name, anchors, views, mask=torch.zeros(shape, dtype=torch.bool))
