"""When calls come and how long they stay, decided before the first one: a slow server can't slow them down."""

import itertools
from dataclasses import dataclass

import numpy as np

from loadtest.script import Script

STAGGER = 1.0
"""Seconds between the starts of calls that are to be held at once."""


@dataclass(frozen=True)
class Planned:
    """One call: begins at `start` and takes its leave at `end` (seconds of the step)."""

    number: int
    start: float
    end: float
    script: Script
    seed: int


def together(calls: int, seconds: float, scripts: list[Script], seed: int, stagger: float = STAGGER) -> list[Planned]:
    """So many calls at once, held for `seconds` from when all are there."""
    return _plan([(stagger * i, stagger * (calls - 1) + seconds) for i in range(calls)], scripts, seed)


def ramp(calls: int, seconds: float, scripts: list[Script], seed: int) -> list[Planned]:
    """One more call again and again, evenly over the first half of the step; all stay to its end."""
    return _plan([(seconds / 2 * i / calls, seconds) for i in range(calls)], scripts, seed)


def poisson(rate: float, holding: float, seconds: float, scripts: list[Script], seed: int) -> list[Planned]:
    """`rate` calls a second come independently of one another, each of exponential length with mean `holding`."""
    generator = np.random.default_rng(seed)
    starts = itertools.takewhile(
        lambda at: at < seconds, itertools.accumulate(iter(lambda: float(generator.exponential(1 / rate)), None))
    )
    return _plan([(start, start + float(generator.exponential(holding))) for start in starts], scripts, seed)


def _plan(spans: list[tuple[float, float]], scripts: list[Script], seed: int) -> list[Planned]:
    order = itertools.cycle([script for script in scripts for _ in range(script.weight)])
    return [
        Planned(i, start, end, script, seed * 1000 + i)
        for i, ((start, end), script) in enumerate(zip(spans, order, strict=False))
    ]
