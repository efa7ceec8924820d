"""Percentiles that unanswered turns can't escape, and bounds by call."""

import math

from hypothesis import given
from hypothesis import strategies as st

from loadtest.statistics import UNANSWERED, estimate, percentile


def test_an_unanswered_turn_is_later_than_all_others() -> None:
    assert percentile([0.3] * 9 + [UNANSWERED], 0.95) == UNANSWERED
    assert percentile([0.3] * 99 + [UNANSWERED], 0.95) == 0.3
    assert math.isnan(percentile([], 0.5))


def test_the_median_of_known_values() -> None:
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([1, 2, 3, 4], 0.5) == 2
    assert percentile([1, 2, 3, 4], 1.0) == 4


def test_few_unlike_calls_leave_wide_bounds_however_many_turns_they_have() -> None:
    unlike = estimate([[0.3] * 100, [0.9] * 100], 0.5)
    assert (unlike.low, unlike.high) == (0.3, 0.9)
    alike = estimate([[0.3, 0.9] * 50] * 2, 0.5)
    assert (alike.low, alike.high) == (0.3, 0.3)


@given(st.lists(st.lists(st.floats(0, 10), max_size=5), max_size=5), st.floats(0.01, 1))
def test_the_figure_lies_within_its_bounds_and_among_the_values(calls: list[list[float]], share: float) -> None:
    found = estimate(calls, share)
    values = [value for call in calls for value in call]
    if not values:
        assert math.isnan(found.value)
        return
    assert found.value in values
    assert found.low <= found.high
