"""The twin fed with the short measurement at start-up."""

from dataclasses import replace

from budget.twin import Target, capacity
from budget.unit_costs import TALK, CoresUsed, UnitCosts, twin

TWO_CORES = UnitCosts(
    decode=0.13, judge=0.045, ahead=0.02, first_words=0.078, more_words=0.1, first_clause=0.065, clause=0.16
)


def carries(costs: UnitCosts, cores: float, used: CoresUsed = CoresUsed()) -> int:  # noqa: B008
    machine, cost = twin(costs, cores, used)
    return capacity(machine, cost, TALK, Target(), most=16)


def test_two_cores_carry_some_calls() -> None:
    assert 3 <= carries(TWO_CORES, 2.0) <= 8


def test_a_slower_machine_carries_fewer_and_more_cores_more() -> None:
    slower = replace(TWO_CORES, **{name: 2 * seconds for name, seconds in vars(TWO_CORES).items()})
    assert carries(slower, 2.0) < carries(TWO_CORES, 2.0) <= carries(TWO_CORES, 4.0)


def test_pieces_on_two_threads_leave_fewer_cores_for_others() -> None:
    assert carries(TWO_CORES, 4.0, CoresUsed(llm=1.6, tts=1.6)) < carries(TWO_CORES, 4.0)


def test_a_machine_that_can_t_answer_one_call_in_time_carries_none() -> None:
    hopeless = replace(TWO_CORES, first_words=2.0)
    assert carries(hopeless, 2.0) == 0


def test_waits_add_up_to_all_turns() -> None:
    assert abs(sum(share for share, _ in TALK.waits) - 1) < 1e-9
