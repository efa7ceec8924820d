import asyncio
import threading

import pytest

from budget.deadline import LatencyBudget, Stage, TurnTimings
from budget.scheduler import QueueFull, Scheduler
from budget.work import Urgency


def test_a_turns_budget_counts_from_the_last_speech_sample() -> None:
    budget = LatencyBudget(speech_end=10.0, target=0.8)
    assert budget.deadline == pytest.approx(10.8)
    assert budget.remaining(10.5) == pytest.approx(0.3)
    assert sum(budget.share(stage) for stage in Stage) <= 0.8


def test_a_stamp_is_kept_and_figures_are_milliseconds() -> None:
    timings = TurnTimings(10.0).stamp(endpoint=10.5, asr_started=10.1).stamp(endpoint=99.0, asr_final=10.3)
    figures = timings.milliseconds()
    assert figures["endpoint_ms"] == 500
    assert figures["asr_final_ms"] == 200
    assert figures["voice_to_voice_ms"] is None
    assert [bar["stage"] for bar in timings.bars()] == ["endpoint", "asr"]


class Gate:
    """Occupies the scheduler's only worker until opened, so that order can be seen."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.open = threading.Event()
        running = threading.Event()
        self.job = scheduler.submit(lambda: (running.set(), self.open.wait(10)), Urgency.FIRST_AUDIO)
        running.wait(10)


async def test_the_most_urgent_work_goes_first_and_the_earliest_deadline_within_it() -> None:
    scheduler, order = Scheduler("test"), []
    gate = Gate(scheduler)
    jobs = [
        scheduler.submit(lambda name=name: order.append(name), urgency, deadline=deadline)
        for name, urgency, deadline in (
            ("partial", Urgency.PARTIAL, 1.0),
            ("late", Urgency.FIRST_AUDIO, 9.0),
            ("soon", Urgency.FIRST_AUDIO, 2.0),
            ("speculation", Urgency.SPECULATION, 0.0),
        )
    ]
    assert scheduler.waits_before(Urgency.PARTIAL)
    gate.open.set()
    await asyncio.wait([asyncio.wrap_future(job) for job in jobs])
    assert order == ["soon", "late", "partial", "speculation"]
    scheduler.close()


async def test_work_whose_caller_is_gone_is_never_begun() -> None:
    scheduler, ran = Scheduler("test"), []
    gate = Gate(scheduler)
    waiting = scheduler.submit(lambda: ran.append(1), Urgency.PARTIAL)
    waiting.cancel()
    gate.open.set()
    await scheduler.run(lambda: None, Urgency.SPECULATION)
    assert ran == []
    scheduler.close()


async def test_a_full_queue_drops_the_least_urgent() -> None:
    scheduler = Scheduler("test", limit=2)
    gate = Gate(scheduler)
    speculative = scheduler.submit(lambda: None, Urgency.SPECULATION)
    scheduler.submit(lambda: None, Urgency.PARTIAL)
    final = scheduler.submit(lambda: "final", Urgency.FIRST_AUDIO)
    with pytest.raises(QueueFull):
        speculative.result(1)
    with pytest.raises(QueueFull):
        scheduler.submit(lambda: None, Urgency.SPECULATION)
    gate.open.set()
    assert final.result(5) == "final"
    scheduler.close()
    with pytest.raises(QueueFull):
        scheduler.submit(lambda: None, Urgency.FIRST_AUDIO)


async def test_an_error_reaches_whoever_waits() -> None:
    scheduler = Scheduler("test")
    with pytest.raises(ZeroDivisionError):
        await scheduler.run(lambda: 1 / 0, Urgency.FIRST_AUDIO)
    assert await scheduler.run(lambda: 7, Urgency.FIRST_AUDIO) == 7
    scheduler.close()
