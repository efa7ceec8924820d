"""The number of calls is found anew when the machine or its callers change."""

import asyncio
import json
from collections.abc import Callable

import pytest

from budget.admission import AdmissionController, Admitted, Asked, Conditions, Limits
from budget.errors import ConfigError
from budget.unit_costs import CoresUsed, UnitCosts
from budget.work import Work
from tests.voice.fakes import FakeRecognizer
from voice.config import load_settings
from voice.forecast import Forecast, ask_twin
from voice.unit_costs import Probe

COSTS = UnitCosts(decode=0.1, judge=0.03, ahead=0.02, first_words=0.1, more_words=0.2, first_clause=0.05, clause=0.2)


class Machine:
    """One whose speed and neighbours can be set; its twin finds 4 calls, or what it is told to."""

    def __init__(self, calls: int = 4) -> None:
        self.settings = load_settings(None, call={"max_calls": calls})
        self.admission = AdmissionController(Limits(calls))
        self.work = Work(cores=2)
        self.took = Probe(asr=0.1, tts=0.2, llm=0.1)
        self.cores = 2.0
        self.finds: int | None = 2
        self.asked: list[dict] = []
        self.with_chat: list[bool] = []
        self.broken = False

    async def timed(self, engines: object, *, chat: bool) -> Probe:
        self.with_chat.append(chat)
        if self.broken:
            raise ConfigError("broken")
        return self.took if chat else Probe(self.took.asr, self.took.tts, None)

    async def ask(self, question: str) -> int | None:
        self.asked.append(json.loads(question)["now"])
        return self.finds

    async def watched(self, seconds: float) -> None:
        engines = FakeRecognizer()
        forecast = Forecast(
            self.settings,
            engines,  # type: ignore[arg-type]
            self.work,
            COSTS,
            CoresUsed(),
            timed=self.timed,
            left=lambda now: self.cores,
            ask=self.ask,
        )
        watching = asyncio.get_running_loop().create_task(forecast.watch(self.admission))
        await asyncio.sleep(seconds)
        watching.cancel()


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voice.forecast.cores", lambda: 2)


@pytest.mark.usefixtures("two_cores")
def test_a_machine_as_it_was_is_not_asked_about(run_virtual: Callable) -> None:
    machine = Machine()
    machine.took = Probe(asr=0.105, tts=0.19, llm=0.08)
    run_virtual(machine.watched(300))
    assert len(machine.with_chat) >= 10
    assert machine.asked == []
    assert machine.admission.limit == 4


@pytest.mark.usefixtures("two_cores")
def test_a_slow_engine_is_believed_when_it_was_slow_again_and_again(run_virtual: Callable) -> None:
    machine = Machine()
    machine.took = Probe(asr=0.1, tts=0.4, llm=0.1)
    run_virtual(machine.watched(40))
    assert machine.asked == [], "once or twice may be chance"
    run_virtual(machine.watched(70))
    assert [round(now["tts"], 3) for now in machine.asked] == [2.0]
    assert machine.admission.limit == 2


@pytest.mark.usefixtures("two_cores")
def test_one_undisturbed_look_among_four_is_enough(run_virtual: Callable) -> None:
    machine = Machine()

    async def disturbed() -> None:
        watching = asyncio.get_running_loop().create_task(machine.watched(265))
        for i in range(18):
            machine.took = Probe(asr=0.1 if i % 3 == 0 else 0.5, tts=0.2, llm=0.1)
            await asyncio.sleep(15)
        await watching

    run_virtual(disturbed())
    assert machine.asked == []


@pytest.mark.usefixtures("two_cores")
def test_a_core_that_others_take_counts_and_is_given_back(run_virtual: Callable) -> None:
    machine = Machine()

    async def neighbour() -> None:
        watching = asyncio.get_running_loop().create_task(machine.watched(100))
        await asyncio.sleep(1)
        machine.cores = 1.0
        await asyncio.sleep(20)
        assert machine.admission.limit == 2
        machine.cores, machine.finds = 2.0, 4
        await watching

    run_virtual(neighbour())
    assert [now["cores"] for now in machine.asked] == [1.0, 2.0]
    assert machine.admission.limit == 4


@pytest.mark.usefixtures("two_cores")
def test_callers_who_talk_more_count(run_virtual: Callable) -> None:
    machine = Machine()
    admitted = machine.admission.decide(Asked(), 0.0, Conditions())
    assert isinstance(admitted, Admitted)
    machine.admission.ended(admitted, 60.0, talked=0.9)
    run_virtual(machine.watched(5))
    assert [round(now["talks"], 2) for now in machine.asked] == [round(machine.admission.talks or 0, 2)]
    assert machine.admission.limit == 2


@pytest.mark.usefixtures("two_cores")
def test_the_last_session_is_left_to_callers(run_virtual: Callable) -> None:
    machine = Machine(calls=2)
    assert isinstance(machine.admission.decide(Asked(), 0.0, Conditions()), Admitted)
    run_virtual(machine.watched(40))
    assert set(machine.with_chat) == {False}


@pytest.mark.usefixtures("two_cores")
def test_a_busy_machine_is_not_timed_and_a_broken_engine_ends_nothing(run_virtual: Callable) -> None:
    machine = Machine()
    with machine.work.running():
        run_virtual(machine.watched(100))
    assert machine.with_chat == []
    machine.broken = True
    run_virtual(machine.watched(100))
    assert len(machine.with_chat) >= 5


@pytest.mark.usefixtures("two_cores")
def test_no_answer_changes_nothing_and_is_asked_for_again(run_virtual: Callable) -> None:
    machine = Machine()
    machine.cores, machine.finds = 1.0, None
    run_virtual(machine.watched(40))
    assert len(machine.asked) >= 2
    assert machine.admission.limit == 4


async def test_the_program_that_asks_the_twin_may_fail() -> None:
    assert await ask_twin("no json") is None
