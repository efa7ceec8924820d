"""How much runs, and what is told of it."""

import pytest

from budget.scheduler import Scheduler
from budget.work import Urgency, Work


def test_there_is_room_while_a_core_is_free_and_quiet_while_most_are() -> None:
    work = Work(cores=2)
    assert work.room
    assert work.quiet()
    with work.running():
        assert work.room
        assert not work.quiet()
        assert work.quiet(own=1), "what one runs oneself disturbs nobody else"
        with work.running():
            assert not work.room
            assert not work.quiet(own=1)
    assert work.room
    assert work.quiet()


def test_a_single_core_is_quiet_when_nothing_runs() -> None:
    work = Work(cores=1)
    assert work.quiet()
    with work.running():
        assert not work.quiet()


def test_speculation_stands_in_nobodys_way_but_is_told() -> None:
    told: list[tuple] = []
    work = Work(lambda *what: told.append(what), cores=1)
    with work.piece("llm", Urgency.SPECULATION):
        assert work.room
    assert [what[:2] for what in told] == [("llm", Urgency.SPECULATION)]


def test_work_that_fails_makes_room_too_and_is_not_told_as_done() -> None:
    told: list[tuple] = []
    work = Work(lambda *what: told.append(what), cores=1)
    with pytest.raises(ValueError, match="broken"), work.piece("asr", Urgency.PARTIAL):
        raise ValueError("broken")
    assert work.room
    assert told == []


async def test_a_scheduler_tells_engine_class_wait_and_time() -> None:
    told: list[tuple] = []
    work = Work(lambda *what: told.append(what), cores=1)
    scheduler = Scheduler("asr", share=work)
    assert await scheduler.run(lambda: work.room, Urgency.FIRST_AUDIO) is False, "it runs itself"
    scheduler.close()
    [(engine, urgency, waited, took)] = told
    assert (engine, urgency) == ("asr", Urgency.FIRST_AUDIO)
    assert waited >= 0
    assert took > 0
