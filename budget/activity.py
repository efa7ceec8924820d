"""What share of a call its caller really talks, how sure that is, and how many calls it lets share a machine.

The mean is not enough: with room for 16 active calls the rule "16 / 0.45" overloads the machine 40% of
the time. So a profile's ratio is a Beta posterior of which the upper quantile is used, calls are
counted and not seconds (the seconds of one call are alike), and the number of calls follows from the
tail of the binomial distribution.
"""

import math
from dataclasses import dataclass, replace

PRIOR_SAMPLES = 20.0
SAMPLES_A_CALL = 17.0
"""p (1 - p) / 0.12^2: what one call tells, where calls of a kind differ by 0.12 (standard deviation)."""
QUANTILE = 0.95


@dataclass(frozen=True)
class Activity:
    """The share of time that callers of one profile talk: a Beta distribution, by what is usual and what was seen."""

    talked: float
    silent: float

    @classmethod
    def expected(cls, share: float) -> "Activity":
        """Before any call was seen."""
        return cls(share * PRIOR_SAMPLES, (1 - share) * PRIOR_SAMPLES)

    def seen(self, share: float) -> "Activity":
        """A call ended in which the caller talked this share of the time."""
        bounded = min(1.0, max(0.0, share))
        return replace(
            self,
            talked=self.talked + bounded * SAMPLES_A_CALL,
            silent=self.silent + (1 - bounded) * SAMPLES_A_CALL,
        )

    @property
    def mean(self) -> float:
        """The likeliest share, about."""
        return self.talked / (self.talked + self.silent)

    @property
    def careful(self) -> float:
        """The share that is exceeded with 5% probability only: what to plan with."""
        return beta_quantile(self.talked, self.silent, QUANTILE)


PROFILES = {"dialogue": 0.5, "outbound": 0.8}
"""Shares expected before any call was seen, by profile: outbound robots are a class of their own."""


def beta_quantile(a: float, b: float, share: float) -> float:
    """Where the Beta(a, b) distribution has this share below it: bisection on its distribution function."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if beta_below(a, b, middle) < share else (low, middle)
    return (low + high) / 2


def beta_below(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by Lentz's continued fraction (Abramowitz and Stegun 26.5.8)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_below(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, 300):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + factor * d)
            c = _away(1 + factor / c)
            total *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return front * total / a


def _away(value: float) -> float:
    """Not zero, so that it can divide."""
    return value if abs(value) > 1e-300 else 1e-300


def overload(calls: int, share: float, room: int, *, correlation: float = 0.0) -> float:
    """The probability that more than `room` of the calls are active at once.

    Each is active `share` of the time. With a `correlation` between calls (a campaign's start, one
    script for all) the count is beta-binomial.
    """
    if calls <= room:
        return 0.0
    if correlation > 0:
        both = 1 / correlation - 1
        a, b = share * both, (1 - share) * both
        logs = [_choose(calls, k) + _beta(k + a, calls - k + b) - _beta(a, b) for k in range(room + 1, calls + 1)]
    elif 0 < share < 1:
        logs = [
            _choose(calls, k) + k * math.log(share) + (calls - k) * math.log1p(-share)
            for k in range(room + 1, calls + 1)
        ]
    else:
        return 1.0 if share >= 1 else 0.0
    return min(1.0, sum(map(math.exp, logs)))


def most_calls(room: int, share: float, risk: float, *, correlation: float = 0.0) -> int:
    """The most calls of which more than `room` are active with at most this probability."""
    calls = room
    while overload(calls + 1, share, room, correlation=correlation) <= risk:
        calls += 1
        if calls > 100 * room + 100:
            break
    return calls


def _choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
