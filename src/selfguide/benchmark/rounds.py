"""Ours and its peers in turn, round after round, so that a noisy machine is noisy for all."""

import logging
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

logger = logging.getLogger(__name__)

Way = Callable[[], float]
"""Does the work once; gives what it cost, of which less is better: seconds a sentence, a step, or megabytes."""


@final
@dataclass(frozen=True)
class Comparison:
    """Ways to do the same work.

    Attributes:
        what: Name of the work.
        unit: Of the costs.
        ways: By name; the first is ours.
        facts: What else is to be told, such as the difference of the vectors; read when all rounds are done.
        warm_up: Whether each way goes once before it counts.
    """

    what: str
    unit: str
    ways: Mapping[str, Way]
    facts: dict[str, Any] = field(default_factory=dict)
    warm_up: bool = True


@final
@dataclass(frozen=True)
class Timing:
    """The costs of each way in each round."""

    what: str
    unit: str
    costs: dict[str, list[float]]
    facts: dict[str, Any]

    @property
    def ours(self) -> str:
        """Name of our way."""
        return next(iter(self.costs))

    def median(self, name: str) -> float:
        """Of the rounds."""
        return statistics.median(self.costs[name])

    def ratio(self, peer: str) -> float:
        """How many times as much the peer costs: the ratio of the medians."""
        return self.median(peer) / self.median(self.ours)

    def ratio_range(self, peer: str) -> tuple[float, float]:
        """Smallest and largest ratio of one round."""
        ratios = [theirs / ours for theirs, ours in zip(self.costs[peer], self.costs[self.ours], strict=True)]
        return min(ratios), max(ratios)


def take_turns(comparison: Comparison, rounds: int) -> Timing:
    """Let every way do the work in every round."""
    if comparison.warm_up:
        for way in comparison.ways.values():
            way()
    costs: dict[str, list[float]] = {name: [] for name in comparison.ways}
    for number in range(rounds):
        for name, way in comparison.ways.items():
            costs[name].append(way())
        shown = ", ".join(f"{name} {values[-1]:.3g}" for name, values in costs.items())
        logger.info("%s, round %d of %d: %s (%s)", comparison.what, number + 1, rounds, shown, comparison.unit)
    return Timing(comparison.what, comparison.unit, costs, comparison.facts)
