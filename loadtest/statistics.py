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
    given = [list(call) for call in calls if call]
    if not given:
        return Estimate(math.nan, math.nan, math.nan)
    generator = np.random.default_rng(seed)
    drawn = sorted(
        percentile([value for i in generator.integers(0, len(given), len(given)) for value in given[i]], share)
        for _ in range(_DRAWS)
    )
    value = percentile([value for call in given for value in call], share)
    return Estimate(value, drawn[round(0.025 * (_DRAWS - 1))], drawn[round(0.975 * (_DRAWS - 1))])
