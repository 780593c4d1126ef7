r"""The contrastive objectives of the paper (section 3), and SimCSE's, which is one of them with other views.

Written for a batch of b sentences with anchors :math:`c_i`, views :math:`h_i` or :math:`h_{i,k}`, and
:math:`\phi(u, v) = \exp(\cos(u, v) / \tau)`; the projection f of the paper has been applied before. ``mask`` marks pairs of
sentences that are not negatives of each other (identical texts).
"""

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

from selfguide.objectives.cosines import check_shapes, not_negatives, scaled_cosines, without


def sg(anchors: Tensor, views: Tensor, *, temperature: float, mask: Tensor | None = None) -> Tensor:
    r"""NT-Xent over the 2b anchors and views (:math:`L^{base}`): each pulls its partner and pushes the other 2b - 2.

    .. math:: L_m = -\log \phi(x_m, \mu(x_m)) / \sum_{n \neq m} \phi(x_m, x_n), \quad x \in \{c_i\} \cup \{h_i\}

    Args:
        anchors: ``(batch, dim)``.
        views: One view of each sentence, ``(batch, dim)``.
        temperature: :math:`\tau`; the paper uses 0.01.
        mask: Pairs that are not negatives, ``(batch, batch)`` of booleans.
    """
    check_shapes(anchors, views, mask, view_dims=2)
    batch = len(anchors)
    both = torch.cat([anchors, views])
    others = not_negatives(batch, mask, anchors.device)
    partner = torch.eye(batch, dtype=torch.bool, device=anchors.device)
    # rows and columns are the b anchors, then the b views; a row keeps its partner and its negatives
    excluded = torch.cat([torch.cat([others, others & ~partner], 1), torch.cat([others & ~partner, others], 1)])
    targets = torch.arange(2 * batch, device=anchors.device).roll(batch)
    return F.cross_entropy(without(scaled_cosines(both, both, temperature), excluded), targets)


def opt1(anchors: Tensor, views: Tensor, *, temperature: float, mask: Tensor | None = None) -> Tensor:
    r"""SG seen from the anchors only: views are points to move towards or away from, not targets themselves.

    .. math:: L_i = -\log \phi(c_i, h_i) / (\sum_{j \neq i} \phi(c_i, c_j) + \sum_j \phi(c_i, h_j))

    Args:
        anchors: ``(batch, dim)``.
        views: One view of each sentence, ``(batch, dim)``.
        temperature: :math:`\tau`; the paper uses 0.01.
        mask: Pairs that are not negatives, ``(batch, batch)`` of booleans.
    """
    check_shapes(anchors, views, mask, view_dims=2)
    others = not_negatives(len(anchors), mask, anchors.device)
    to_anchors = without(scaled_cosines(anchors, anchors, temperature), others)
    return F.cross_entropy(torch.cat([_to_views(anchors, views, temperature, mask), to_anchors], 1), _own(anchors))


def opt2(anchors: Tensor, views: Tensor, *, temperature: float, mask: Tensor | None = None) -> Tensor:
    r"""Opt1 without the anchors among the negatives (InfoNCE from anchors to views).

    .. math:: L_i = -\log \phi(c_i, h_i) / \sum_j \phi(c_i, h_j)

    Args:
        anchors: ``(batch, dim)``.
        views: One view of each sentence, ``(batch, dim)``.
        temperature: :math:`\tau`; the paper uses 0.01.
        mask: Pairs that are not negatives, ``(batch, batch)`` of booleans.
    """
    check_shapes(anchors, views, mask, view_dims=2)
    return F.cross_entropy(_to_views(anchors, views, temperature, mask), _own(anchors))


def sg_opt(anchors: Tensor, views: Tensor, *, temperature: float, mask: Tensor | None = None) -> Tensor:
    r"""Opt2 with all layers as views (opt3, the paper's SG-OPT).

    .. math:: L_{i,k} = -\log \frac{\phi(c_i, h_{i,k})}
        {\phi(c_i, h_{i,k}) + \sum_{m \neq i} \sum_n \phi(c_i, h_{m,n})}

    The sentence's own other layers are not in the denominator. With :math:`S_i` the log-sum-exp over the negatives, the term
    is :math:`\mathrm{softplus}(S_i - \cos(c_i, h_{i,k}) / \tau)`: one product, nothing repeated for each layer.

    Args:
        anchors: ``(batch, dim)``.
        views: Views of all layers, ``(batch, layers, dim)``.
        temperature: :math:`\tau`; the paper uses 0.01.
        mask: Pairs that are not negatives, ``(batch, batch)`` of booleans.
    """
    check_shapes(anchors, views, mask, view_dims=3)
    batch, layers, _ = views.shape
    logits = scaled_cosines(anchors, views.flatten(0, 1), temperature).view(
        batch, batch, layers
    )  # (anchor, sentence, layer)
    positives = logits.diagonal(dim1=0, dim2=1).T  # (batch, layers)
    others = not_negatives(batch, mask, anchors.device).unsqueeze(-1)
    negatives = without(logits, others).flatten(1).logsumexp(dim=1, keepdim=True)  # (batch, 1)
    return F.softplus(negatives - positives).mean()


def simcse(anchors: Tensor, views: Tensor, *, temperature: float, mask: Tensor | None = None) -> Tensor:
    """SimCSE: opt2's formula, where the view is the same sentence through the encoder once more, with other dropout.

    Args:
        anchors: ``(batch, dim)``.
        views: The second pass of each sentence, ``(batch, dim)``.
        temperature: The published recipe uses 0.05.
        mask: Pairs that are not negatives, ``(batch, batch)`` of booleans.
    """
    return opt2(anchors, views, temperature=temperature, mask=mask)


def _to_views(anchors: Tensor, views: Tensor, temperature: float, mask: Tensor | None) -> Tensor:
    """Logits from anchors to views; a sentence that ``mask`` marks as no negative is left out, the own view never."""
    logits = scaled_cosines(anchors, views, temperature)
    if mask is None:
        return logits
    return without(logits, mask.bool() & ~torch.eye(len(anchors), dtype=torch.bool, device=anchors.device))


def _own(anchors: Tensor) -> Tensor:
    return torch.arange(len(anchors), device=anchors.device)
