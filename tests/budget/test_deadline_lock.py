"""Who goes next."""

import asyncio

from budget.deadline_lock import DeadlineLock


async def test_the_earliest_deadline_goes_first_and_arrival_decides_among_equals() -> None:
    lock, order = DeadlineLock(), []

    async def work(name: str, deadline: float) -> None:
        async with lock.hold(deadline):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for name, deadline in (("first come", 9.0), ("late", 5.0), ("soon", 1.0), ("soon too", 1.0)):
            group.create_task(work(name, deadline))
    assert order == ["first come", "soon", "soon too", "late"]


async def test_who_gave_up_waiting_is_skipped_and_who_fails_passes_it_on() -> None:
    lock, order = DeadlineLock(), []

    async def work(name: str, deadline: float) -> None:
        async with lock.hold(deadline):
            order.append(name)

    fails = asyncio.Event()

    async def fail() -> None:
        async with lock.hold(0.0):
            await fails.wait()
            raise ValueError

    failing = asyncio.ensure_future(fail())  # noqa: TID251
    await asyncio.sleep(0)
    impatient = asyncio.ensure_future(work("impatient", 1.0))  # noqa: TID251
    patient = asyncio.ensure_future(work("patient", 2.0))  # noqa: TID251
    await asyncio.sleep(0)
    impatient.cancel()
    fails.set()
    await asyncio.wait([failing, impatient, patient])
    assert isinstance(failing.exception(), ValueError)
    assert order == ["patient"]


async def test_being_cancelled_at_the_moment_of_getting_it_loses_nothing() -> None:
    lock, order = DeadlineLock(), []

    async def work(name: str) -> None:
        async with lock.hold(1.0):
            order.append(name)

    async with lock.hold(0.0):
        unlucky = asyncio.ensure_future(work("unlucky"))  # noqa: TID251
        lucky = asyncio.ensure_future(work("lucky"))  # noqa: TID251
        await asyncio.sleep(0)
    unlucky.cancel()
    await asyncio.wait([unlucky, lucky], timeout=1)
    assert order == ["lucky"]
