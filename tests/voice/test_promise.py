"""Admission, governor and ledger as the running service joins them."""

import asyncio
from collections.abc import Callable

import pytest

from budget.admission import Admitted, Asked, Reason, Refused
from budget.deadline import TurnTimings
from budget.governor import LADDER
from budget.head_start import MOST
from budget.memory import MB, Device, MemoryLedger, Reservation
from voice.config import load_settings
from voice.observe import Observer
from voice.promise import Promise


def promise(
    calls: int = 2, *, taken: list[int] | None = None, trim: Callable[[], bool] = lambda: False, **admission: object
) -> Promise:
    settings = load_settings(None, call={"max_calls": calls}, admission=admission)
    ledger = MemoryLedger([Device("cpu", 1000 * MB)], [Reservation("all", "cpu", 100 * MB, 0)], calls=calls)
    return Promise(settings, ledger, Observer(), taken=lambda device: (taken or [0])[0], trim=trim)


def gauge(one: Promise, name: str) -> float | None:
    return one._observer.registry.get_sample_value(name)


def test_a_place_is_held_and_given_back_with_its_memory(run_virtual: Callable) -> None:
    async def calls() -> None:
        door = promise()
        held = [door.ask(Asked()) for _ in range(3)]
        assert [type(one) for one in held] == [Admitted, Admitted, Refused]
        assert door.places() == (2, 0, 2)
        assert door.ledger.held == 2
        for one in held[:2]:
            assert isinstance(one, Admitted)
            door.ended(one, talked=None)
        assert door.places() == (0, 2, 2)
        assert door.ledger.held == 0
        assert gauge(door, "halfsecond_calls_admissible") == 2

    run_virtual(calls())


def test_late_answers_take_the_governor_down_and_shut_the_door(run_virtual: Callable) -> None:
    async def calls() -> None:
        door = promise()
        watching = asyncio.get_running_loop().create_task(door.watch())
        for _ in range(60):
            await asyncio.sleep(0.5)
            door._observer.promise.audible(-0.1, 0.8, asyncio.get_running_loop().time())
        assert door.governor.level == len(LADDER) - 1
        assert door.effort.head_start == MOST
        assert not door.effort.admits
        assert gauge(door, "halfsecond_governor_level") == len(LADDER) - 1
        refused = door.ask(Asked())
        assert isinstance(refused, Refused)
        assert refused.reason in (Reason.GOVERNOR, Reason.LATE)
        await asyncio.sleep(120)
        assert door.governor.level == 0
        assert isinstance(door.ask(Asked()), Admitted)
        watching.cancel()

    run_virtual(calls())


def test_more_memory_than_was_reserved_shuts_the_door_until_it_is_gone(run_virtual: Callable) -> None:
    async def calls() -> None:
        taken = [90 * MB]
        door = promise(taken=taken)
        watching = asyncio.get_running_loop().create_task(door.watch())
        await asyncio.sleep(6)
        assert door.places()[1] == 2
        taken[0] = 101 * MB
        await asyncio.sleep(6)
        refused = door.ask(Asked())
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.MEMORY
        assert gauge(door, "halfsecond_memory_over") == 1
        taken[0] = 99 * MB
        await asyncio.sleep(6)
        assert isinstance(door.ask(Asked()), Admitted)
        watching.cancel()

    run_virtual(calls())


def test_what_lies_free_in_the_heap_is_given_back_before_anybody_is_refused(run_virtual: Callable) -> None:
    async def calls() -> None:
        taken = [101 * MB]

        def trim() -> bool:
            taken[0] = 99 * MB
            return True

        door = promise(taken=taken, trim=trim)
        watching = asyncio.get_running_loop().create_task(door.watch())
        await asyncio.sleep(6)
        assert isinstance(door.ask(Asked()), Admitted)
        assert gauge(door, "halfsecond_memory_over") == 0
        watching.cancel()

    run_virtual(calls())


def test_a_card_that_vanishes_shuts_the_door_until_it_is_back(run_virtual: Callable) -> None:
    async def calls() -> None:
        card: list[int | None] = [None]
        plan = [Reservation("service", "cpu", 10 * MB, 0), Reservation("whisper", "cuda:0", 100 * MB, 0)]
        ledger = MemoryLedger([Device("cpu", 1000 * MB), Device("cuda:0", 1000 * MB)], plan, calls=2)
        settings = load_settings(None, call={"max_calls": 2})
        door = Promise(settings, ledger, Observer(), taken=lambda device: 1 if device == "cpu" else card[0])
        watching = asyncio.get_running_loop().create_task(door.watch())
        await asyncio.sleep(6)
        assert door.places()[1] == 2, "a card that never told what it holds is believed"
        for held, admissible in ((90 * MB, 2), (101 * MB, 0), (90 * MB, 2), (None, 0), (90 * MB, 2)):
            card[0] = held
            await asyncio.sleep(5)
            assert door.places()[1] == admissible, held
        watching.cancel()

    run_virtual(calls())


def test_the_operators_limits_reach_the_door(run_virtual: Callable) -> None:
    async def calls() -> None:
        door = promise(4, reserved=1, calls_a_key=2)
        kept = [door.ask(Asked("a")) for _ in range(3)]
        assert isinstance(kept[2], Refused)
        assert kept[2].reason is Reason.CALLS
        door.ask(Asked("b"))
        last = door.ask(Asked("c"))
        assert isinstance(last, Refused)
        assert last.reason is Reason.RESERVED

    run_virtual(calls())


def test_a_wait_that_was_chosen_is_no_lateness() -> None:
    sure = TurnTimings(speech_end=10.0, endpoint=10.2)
    assert sure.slack(10.35, 0.8) == pytest.approx(0.45)
    unsure = TurnTimings(speech_end=10.0, endpoint=10.7)
    assert unsure.slack(10.7, 0.8) == pytest.approx(0.6)
    assert unsure.slack(11.4, 0.8) == pytest.approx(-0.1)
