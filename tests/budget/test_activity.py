"""Activity: the figures of published tables, and what must hold for any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.activity import PROFILES, Activity, beta_below, most_calls, overload


@pytest.mark.parametrize(("room", "calls"), [(1, 1), (4, 4), (8, 10), (16, 24), (45, 78), (100, 187)])
def test_calls_at_one_percent_of_overload(room: int, calls: int) -> None:
    assert most_calls(room, 0.45, 0.01) == calls


@pytest.mark.parametrize(("room", "calls"), [(16, 20), (45, 61), (100, 138)])
def test_correlated_calls_share_less(room: int, calls: int) -> None:
    assert most_calls(room, 0.45, 0.01, correlation=0.05) == pytest.approx(calls, abs=1)


@pytest.mark.parametrize(("calls", "careful"), [(3, 0.56), (10, 0.51), (50, 0.48)])
def test_the_careful_share_comes_down_to_what_was_seen(calls: int, careful: float) -> None:
    activity = Activity.expected(PROFILES["dialogue"])
    for _ in range(calls):
        activity = activity.seen(0.45)
    assert activity.careful == pytest.approx(careful, abs=0.006)


def test_outbound_robots_are_expected_to_be_busier() -> None:
    assert Activity.expected(PROFILES["outbound"]).careful > Activity.expected(PROFILES["dialogue"]).careful


def test_beta_agrees_with_closed_forms() -> None:
    assert beta_below(1, 1, 0.3) == pytest.approx(0.3)
    assert beta_below(2, 1, 0.5) == pytest.approx(0.25)
    assert beta_below(1, 3, 0.2) == pytest.approx(1 - 0.8**3)
    assert beta_below(0.5, 0.5, 0.5) == pytest.approx(0.5)


@given(st.floats(0.5, 500), st.floats(0.5, 500), st.floats(0, 1))
def test_beta_is_a_probability_and_symmetric(a: float, b: float, x: float) -> None:
    below = beta_below(a, b, x)
    assert -1e-9 <= below <= 1 + 1e-9
    assert below == pytest.approx(1 - beta_below(b, a, 1 - x), abs=1e-6)


@given(st.integers(1, 60), st.floats(0.05, 0.95), st.floats(0.001, 0.2))
def test_as_many_calls_as_the_bound_allows_and_no_more(room: int, share: float, risk: float) -> None:
    calls = most_calls(room, share, risk)
    assert calls >= room
    assert overload(calls, share, room) <= risk < overload(calls + 1, share, room)


def test_a_call_that_always_talks_shares_nothing() -> None:
    assert most_calls(16, 1.0, 0.01) == 16
    assert overload(17, 1.0, 16) == 1.0
    assert overload(17, 0.0, 16) == 0.0
