"""The rule of how many calls may share lanes, checked with people who talk as ITU-T P.59 says."""

import pytest

from budget.activity import most_calls
from tests.budget.talkspurts import SHARE, overloaded


def test_people_talk_as_much_as_the_standard_says() -> None:
    assert pytest.approx(0.3875, abs=0.001) == SHARE
    assert overloaded(1, 0, seconds=50_000) == pytest.approx(SHARE, abs=0.01)


def test_sixteen_lanes_carry_nearly_half_as_many_calls_again() -> None:
    admitted = most_calls(16, 0.45, 0.01)
    assert admitted >= 1.4 * 16, "a worst-case rule admits 16"
    assert overloaded(admitted, 16) <= 0.01


def test_the_rule_holds_for_callers_who_talk_as_much_as_it_expects() -> None:
    busier = 0.45 / (1 - 0.45) / (SHARE / (1 - SHARE))
    assert overloaded(16, 0, busier=busier, seconds=2000) > 0.9
    assert overloaded(most_calls(16, 0.45, 0.01), 16, busier=busier) <= 0.0125, "1%, and the luck of one run"


def test_the_rule_of_the_mean_would_overload_it() -> None:
    busier = 0.45 / (1 - 0.45) / (SHARE / (1 - SHARE))
    assert overloaded(round(16 / 0.45), 16, busier=busier) > 0.2
