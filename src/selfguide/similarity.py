"""Similarities between vectors, the collapse monitors, and the correlations that STS scores are made of."""

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

from selfguide.errors import InputError

Vector = npt.NDArray[np.float64]


def paired_cosines(left: npt.NDArray[np.floating], right: npt.NDArray[np.floating]) -> Vector:
    """Cosine of each row with the same row of the other, in double precision: ``(n, dim), (n, dim) -> (n,)``.

    It is 0 where one of the two is the zero vector, and not finite where a number is not.
    """
    wide = left.astype(np.float64), right.astype(np.float64)
    lengths = np.sqrt(_row_products(wide[0], wide[0])) * np.sqrt(_row_products(wide[1], wide[1]))
    products = _row_products(*wide)
    cosines: Vector = np.divide(products, lengths, out=np.zeros_like(products), where=lengths != 0)
    return cosines


def _row_products(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> Vector:
    products: Vector = np.einsum("nd,nd->n", left, right)
    return products


def alignment(left: Tensor, right: Tensor) -> Tensor:
    """Mean squared distance between the unit vectors of positive pairs; 0 when they coincide, 2 for unrelated ones."""
    return (F.normalize(left, dim=-1) - F.normalize(right, dim=-1)).square().sum(dim=-1).mean()


def uniformity(vectors: Tensor) -> Tensor:
    """Log of the mean Gaussian potential over all pairs of unit vectors ``(n, dim)``; 0 when they all coincide (collapse).

    The lower, the more evenly the vectors cover the sphere; -4 is the mean over independent directions in many dimensions.
    """
    unit = F.normalize(vectors, dim=-1)
    n = len(unit)
    # exp(-2 |u - v|^2) with |u - v|^2 = 2 - 2 u.v; a vector with itself does not count
    itself = torch.eye(n, dtype=torch.bool, device=unit.device)
    potentials = (4 * (unit @ unit.T) - 4).exp().masked_fill(itself, 0).sum()
    return (potentials / (n * (n - 1))).log()


def spread(vectors: Tensor) -> Tensor:
    """Root mean squared distance of unit vectors ``(n, dim)`` from their centre: 0 when collapsed, near 1 at best."""
    unit = F.normalize(vectors, dim=-1)
    return (unit - unit.mean(dim=0)).square().sum(dim=-1).mean().sqrt()


def spearman(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """Spearman's rank correlation x100, ties at their mean rank.

    Raises:
        InputError: when a value is not finite, or all values of one side are equal, so that no correlation is defined.
    """
    from scipy.stats import rankdata

    left, right = _both_checked(predicted, gold)
    return 100 * float(np.corrcoef(rankdata(left), rankdata(right))[0, 1])


def pearson(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """Pearson's linear correlation x100.

    Raises:
        InputError: when a value is not finite, or all values of one side are equal, so that no correlation is defined.
    """
    left, right = _both_checked(predicted, gold)
    return 100 * float(np.corrcoef(left, right)[0, 1])


def bootstrap_interval(
    predicted: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    other: npt.ArrayLike | None = None,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """95% interval of :func:`spearman` by resampling pairs; with ``other``, of its gain over the scores in ``other``."""
    rng = np.random.default_rng(seed)
    columns = [np.asarray(values, dtype=np.float64) for values in (predicted, gold, other) if values is not None]

    def statistic(*drawn: Vector) -> float:
        value = spearman(drawn[0], drawn[1])
        return value - spearman(drawn[2], drawn[1]) if other is not None else value

    statistic(*columns)  # refuses what is not defined, so that the loop below ends
    values: list[float] = []
    while len(values) < draws:
        rows = rng.integers(len(columns[0]), size=len(columns[0]))
        drawn = [column[rows] for column in columns]
        if all(np.ptp(column) > 0 for column in drawn):  # else no correlation is defined: drawn again
            values.append(statistic(*drawn))
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _both_checked(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> tuple[Vector, Vector]:
    if np.shape(predicted) != np.shape(gold):
        raise InputError(f"{np.size(predicted)} predicted scores were given for {np.size(gold)} gold scores")
    return _checked(predicted, "predicted"), _checked(gold, "gold")


def _checked(values: npt.ArrayLike, side: str) -> Vector:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"the {side} scores hold a value that is not finite ({array[bad]} at position {bad + 1})")
    if len(array) < 2 or np.ptp(array) == 0:
        raise InputError(f"the {side} scores are all equal ({len(array)} of them): a correlation is not defined")
    return array


def in_batch_accuracy(similarities: Tensor, negatives: Tensor) -> Tensor:
    """Share of the positives that are closer to their anchor than every negative.

    Args:
        similarities: Of anchor i with view k of sentence j, ``(batch, batch, layers)``.
        negatives: Where sentence j is a negative of anchor i, ``(batch, batch)`` of booleans.
    """
    positives = similarities.diagonal(dim1=0, dim2=1).T  # (batch, layers)
    lowest = torch.finfo(similarities.dtype).min
    hardest = similarities.masked_fill(~negatives.unsqueeze(-1), lowest).flatten(1).amax(dim=1, keepdim=True)
    return (positives > hardest).to(similarities.dtype).mean()
