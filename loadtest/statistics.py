"""Percentiles with bounds, for turns that come in calls.

An unanswered turn is infinitely late: it counts in every percentile instead of vanishing from it.
Turns of one call are alike, so bounds come from drawing whole calls again (the cluster bootstrap),
not single turns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

UNANSWERED = math.inf
_DRAWS = 1000


@dataclass(frozen=True)
class Estimate:
    """A figure and the bounds in which it lies with 95% confidence."""

    value: float
    low: float
    high: float


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0-1) of the values don't exceed; nan for none. Infinite ones count."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def estimate(calls: Sequence[Sequence[float]], share: float, *, seed: int = 0) -> Estimate:
    """A percentile over the turns of all calls, with bounds; calls without turns are left out."""
    drawn = sorted(_drawn(calls, share, seed))
    if not drawn:
        return Estimate(math.nan, math.nan, math.nan)
    value = percentile([value for call in calls for value in call], share)
    return Estimate(value, drawn[round(0.025 * (_DRAWS - 1))], drawn[round(0.975 * (_DRAWS - 1))])


def confidence(calls: Sequence[Sequence[float]], share: float, target: float, *, seed: int = 0) -> float:
    """How sure it is, from 0 to 1, that a percentile of calls like these is within `target`; nan for none."""
    drawn = _drawn(calls, share, seed)
    return sum(value <= target for value in drawn) / len(drawn) if drawn else math.nan


def _drawn(calls: Sequence[Sequence[float]], share: float, seed: int) -> list[float]:
    """The percentile of many draws of whole calls, with replacement."""
    given = [list(call) for call in calls if call]
    if not given:
        return []
    generator = np.random.default_rng(seed)
    return [
        percentile([value for i in generator.integers(0, len(given), len(given)) for value in given[i]], share)
        for _ in range(_DRAWS)
    ]
