"""Arrivals are planned beforehand, and as many as asked for."""

import numpy as np
import pytest

from loadtest.arrivals import poisson, ramp, together
from loadtest.script import Script

ONE = [Script("one")]


def test_calls_held_together_end_together() -> None:
    plan = together(4, 60.0, ONE, seed=0)
    assert [call.start for call in plan] == [0, 1, 2, 3]
    assert {call.end for call in plan} == {63.0}


def test_a_ramp_grows_evenly_and_then_holds() -> None:
    plan = ramp(5, 100.0, ONE, seed=0)
    assert [call.start for call in plan] == [0, 10, 20, 30, 40]
    assert {call.end for call in plan} == {100.0}


def test_poisson_arrivals_come_at_their_rate_and_stay_their_time() -> None:
    plan = poisson(0.5, 30.0, 10_000.0, ONE, seed=1)
    gaps = np.diff([call.start for call in plan])
    assert len(plan) / 10_000 == pytest.approx(0.5, rel=0.05)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05), "as wide as an exponential's mean"
    assert np.mean([call.end - call.start for call in plan]) == pytest.approx(30, rel=0.05)


def test_the_same_seed_plans_the_same_and_another_another() -> None:
    assert poisson(1, 9, 60, ONE, seed=3) == poisson(1, 9, 60, ONE, seed=3)
    assert poisson(1, 9, 60, ONE, seed=3) != poisson(1, 9, 60, ONE, seed=4)


def test_scripts_are_mixed_by_weight() -> None:
    plan = together(6, 1.0, [Script("often", weight=2), Script("rare")], seed=0)
    assert [call.script.name for call in plan] == ["often", "often", "rare"] * 2
