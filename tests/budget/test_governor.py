"""The governor: steps down before answers are late, up again when there is time, never in a flutter."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from budget.governor import LADDER, Change, Governor


def run(governor: Governor, slack: float | None, since: float, seconds: float) -> list[tuple[float, Change]]:
    """Turns with this slack twice a second, and the governor asked as often."""
    changes = []
    for i in range(int(seconds * 2)):
        now = since + i / 2
        if slack is not None:
            governor.seen(slack, now)
        if (change := governor.watch(now)) is not None:
            changes.append((now, change))
    return changes


def test_does_nothing_while_there_is_slack() -> None:
    governor = Governor()
    assert run(governor, 0.45, 0.0, 60) == []
    assert governor.effort == LADDER[0].effort


def test_steps_down_one_at_a_time_and_waits_for_the_effect() -> None:
    governor = Governor()
    changes = run(governor, 0.05, 0.0, 60)
    assert [change.after for _, change in changes] == list(LADDER[1:])
    times = [at for at, _ in changes]
    assert all(later - earlier >= 3.0 for earlier, later in itertools.pairwise(times))
    assert not governor.effort.admits


def test_speculation_goes_first_and_admission_last() -> None:
    assert not LADDER[1].effort.speculate
    assert all(step.effort.admits for step in LADDER[:-1])
    assert not LADDER[-1].effort.admits


def test_is_back_on_top_within_twenty_seconds_of_the_first_steps_effect() -> None:
    governor = Governor()
    run(governor, 0.05, 0.0, 1.5)
    assert governor.level == 1
    changes = run(governor, 0.5, 1.5, 25)
    assert [change.after.name for _, change in changes] == ["usual"]
    assert changes[0][0] <= 1.5 + 20


def test_steps_up_when_nobody_talks_any_more() -> None:
    governor = Governor()
    run(governor, 0.05, 0.0, 20)
    assert governor.level >= 5
    run(governor, None, 20.0, 200)
    assert governor.level == 0


def test_between_the_two_marks_it_stays_where_it_is() -> None:
    governor = Governor()
    run(governor, 0.05, 0.0, 5)
    level = governor.level
    assert run(governor, 0.22, 5.0, 60) == []
    assert governor.level == level


def test_two_late_turns_are_no_reason() -> None:
    governor = Governor()
    governor.seen(-1.0, 0.0)
    governor.seen(-1.0, 0.1)
    assert governor.watch(0.2) is None


@given(st.lists(st.tuples(st.floats(-20, 20), st.floats(-2, 1)), max_size=200))
def test_stays_on_its_ladder_whatever_the_clock_does(turns: list[tuple[float, float]]) -> None:
    governor, now = Governor(), 0.0
    for passes, slack in turns:
        now += passes
        governor.seen(slack, now)
        governor.watch(now)
        assert 0 <= governor.level < len(LADDER)
