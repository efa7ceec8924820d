"""Admission: who gets in, who does not and why, and that nothing is ever lost count of."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budget.admission import AdmissionController, Admitted, Asked, Conditions, Limits, Reason, Refused
from budget.quota import Quota

FINE = Conditions()


def controller(calls: int = 4, **limits: object) -> AdmissionController:
    return AdmissionController(Limits(calls, **limits), seed=1)  # type: ignore[arg-type]


def refused(decision: Admitted | Refused) -> Refused:
    assert isinstance(decision, Refused)
    return decision


def admitted(decision: Admitted | Refused) -> Admitted:
    assert isinstance(decision, Admitted)
    return decision


def test_admits_as_many_as_the_machine_carries_and_not_one_more() -> None:
    door = AdmissionController(Limits(10), capacity=3, seed=1)
    for _ in range(3):
        admitted(door.decide(Asked(), 0.0, FINE))
    assert refused(door.decide(Asked(), 0.0, FINE)).reason is Reason.CAPACITY
    assert door.admissible(0.0, FINE) == 0


def test_the_operators_bound_wins_over_a_greater_capacity() -> None:
    door = AdmissionController(Limits(2), capacity=9, seed=1)
    assert door.limit == 2


def test_a_place_that_is_given_back_is_free_at_once() -> None:
    door = controller(1)
    first = admitted(door.decide(Asked(), 0.0, FINE))
    refused(door.decide(Asked(), 1.0, FINE))
    door.ended(first, 2.0)
    admitted(door.decide(Asked(), 2.0, FINE))


def test_the_last_places_are_kept_for_calls_with_priority() -> None:
    door = controller(4, reserved=1)
    for _ in range(3):
        admitted(door.decide(Asked(), 0.0, FINE))
    assert refused(door.decide(Asked(), 0.0, FINE)).reason is Reason.RESERVED
    assert door.admissible(0.0, FINE) == 0
    admitted(door.decide(Asked(priority=True), 0.0, FINE))
    assert refused(door.decide(Asked(priority=True), 0.0, FINE)).reason is Reason.CAPACITY


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (Conditions(memory_left=False), Reason.MEMORY),
        (Conditions(memory_kept=False), Reason.MEMORY),
        (Conditions(loop_lag=0.5), Reason.BUSY),
        (Conditions(governor_admits=False), Reason.GOVERNOR),
    ],
)
def test_says_what_is_wrong_with_the_machine(conditions: Conditions, reason: Reason) -> None:
    door = controller()
    decision = refused(door.decide(Asked(), 0.0, conditions))
    assert decision.reason is reason
    assert decision.retry_after >= 1
    assert not decision.reason.own_fault
    assert door.admissible(0.0, conditions) == 0


def test_closes_while_too_many_answers_are_late_and_opens_again() -> None:
    door = controller()
    for i in range(6):
        door.guard.seen(-0.2, float(i))
    assert refused(door.decide(Asked(), 6.0, FINE)).reason is Reason.LATE
    admitted(door.decide(Asked(), 30.0, FINE))


def test_one_late_answer_among_few_closes_nothing() -> None:
    door = controller()
    for i in range(10):
        door.guard.seen(0.3, float(i))
    door.guard.seen(-0.2, 10.0)
    admitted(door.decide(Asked(), 10.5, FINE))


def test_a_clients_own_limits_are_its_own_fault() -> None:
    door = controller(9, quota=Quota(calls=2, a_minute=6, burst=3))
    held = [admitted(door.decide(Asked("a"), 0.0, FINE)) for _ in range(2)]
    third = refused(door.decide(Asked("a"), 0.0, FINE))
    assert third.reason is Reason.CALLS
    assert third.reason.own_fault
    admitted(door.decide(Asked("b"), 0.0, FINE))
    door.ended(held[0], 1.0)
    door.ended(admitted(door.decide(Asked("a"), 1.0, FINE)), 1.0)
    fourth = refused(door.decide(Asked("a"), 1.0, FINE))
    assert fourth.reason is Reason.STARTS
    assert fourth.retry_after == pytest.approx(9.0, abs=0.5)
    admitted(door.decide(Asked("a"), 1.0 + fourth.retry_after, FINE))


def test_those_who_are_refused_are_told_to_come_back_one_after_another() -> None:
    door = controller(2)
    ended = [admitted(door.decide(Asked(), 0.0, FINE)) for _ in range(2)]
    waits = [refused(door.decide(Asked(), 0.0, FINE)).retry_after for _ in range(3)]
    assert 30 <= waits[0] <= 36 and 60 <= waits[1] <= 72 and 90 <= waits[2] <= 108
    for one in ended:
        door.ended(one, 20.0)
    again = [admitted(door.decide(Asked(), 200.0, FINE)) for _ in range(2)]
    assert len(again) == 2
    assert refused(door.decide(Asked(), 200.0, FINE)).retry_after < 30, "calls have been shorter than was thought"


def test_what_callers_talked_is_learned_by_profile() -> None:
    door = controller(50)
    before = door.activity["dialogue"].careful
    for _ in range(20):
        door.ended(admitted(door.decide(Asked(), 0.0, FINE)), 60.0, talked=0.3)
    assert door.activity["dialogue"].careful < before
    assert door.activity["outbound"] == controller().activity["outbound"]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["ask", "end", "late", "carry"]), st.floats(-5, 30), st.integers(0, 9)), max_size=80
    ),
    st.integers(1, 6),
    st.integers(0, 3),
)
def test_counts_right_whatever_happens(steps: list[tuple[str, float, int]], calls: int, reserved: int) -> None:
    door = AdmissionController(Limits(calls, reserved=reserved, quota=Quota(calls=3)), seed=0)
    held: list[Admitted] = []
    now = 0.0
    for what, passes, which in steps:
        now += passes  # the clock may jump back
        if what == "ask":
            decision = door.decide(Asked(str(which % 3), priority=which % 2 == 0), now, FINE)
            if isinstance(decision, Admitted):
                held.append(decision)
            else:
                assert decision.retry_after > 0
        elif what == "end" and held:
            door.ended(held.pop(which % len(held)), now)
        elif what == "late":
            door.guard.seen(0.1 - which / 10, now)
        elif what == "carry":
            door.can_carry(which)
        assert door.active == len(held)
        assert 0 <= door.admissible(now, FINE) <= calls
    for one in held:
        door.ended(one, now)
    assert door.active == 0
