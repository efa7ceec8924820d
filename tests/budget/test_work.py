"""How much runs, and what is told of it."""

import pytest

from budget.scheduler import Scheduler
from budget.work import Urgency, Work


def test_there_is_room_while_a_core_is_free() -> None:
    work = Work(cores=2)
    assert work.room()
    with work.running():
        assert work.room()
        with work.running():
            assert not work.room()
            assert work.room(spare=1)
    assert work.room()


def test_work_that_fails_makes_room_too_and_is_not_told_as_done() -> None:
    told: list[tuple] = []
    work = Work(lambda *what: told.append(what), cores=1)
    with pytest.raises(ValueError, match="broken"), work.piece("asr", Urgency.PARTIAL):
        raise ValueError("broken")
    assert work.room()
    assert told == []


async def test_a_scheduler_tells_engine_class_wait_and_time() -> None:
    told: list[tuple] = []
    work = Work(lambda *what: told.append(what), cores=1)
    scheduler = Scheduler("asr", share=work)
    assert await scheduler.run(work.room, Urgency.FIRST_AUDIO) is False, "it runs itself"
    scheduler.close()
    [(engine, urgency, waited, took)] = told
    assert (engine, urgency) == ("asr", Urgency.FIRST_AUDIO)
    assert waited >= 0
    assert took > 0
