"""How early an answer is begun follows how long answers take."""

from hypothesis import given
from hypothesis import strategies as st

from budget.head_start import LEAST, MOST, HeadStart


def test_follows_the_machine_within_bounds() -> None:
    lead = HeadStart()
    assert lead.seconds == LEAST
    for _ in range(40):
        lead.seen(0.36)
    assert 0.38 < lead.seconds < 0.41
    for _ in range(60):
        lead.seen(0.1)
    assert lead.seconds == LEAST


@given(st.lists(st.floats(-1, 100), max_size=50))
def test_is_never_too_soon_or_too_late(times: list[float]) -> None:
    lead = HeadStart()
    for took in times:
        lead.seen(took)
        assert LEAST <= lead.seconds <= MOST
