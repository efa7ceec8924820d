"""How early an answer is begun follows how long answers take."""

from hypothesis import given
from hypothesis import strategies as st

from budget.head_start import LEAST, MOST, HeadStart


def after(times: list[float]) -> float:
    lead = HeadStart()
    for took in times:
        lead.seen(took)
    return lead.seconds


def test_follows_the_machine_within_bounds() -> None:
    assert after([]) == LEAST
    assert 0.36 <= after([0.36] * 60) < 0.38
    assert after([0.36] * 60 + [0.1] * 60) == LEAST
    assert after([2.0] * 60) == MOST


def test_answers_that_take_now_this_now_that_are_begun_as_early_as_the_long_ones_need() -> None:
    assert 0.45 < after([0.2, 0.4] * 40) <= 0.55


@given(st.lists(st.floats(-1, 100), max_size=50))
def test_is_never_too_soon_or_too_late(times: list[float]) -> None:
    assert LEAST <= after(times) <= MOST
