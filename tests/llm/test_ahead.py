"""When a reading ahead is begun, and when it isn't worth it."""

import asyncio
from concurrent.futures import Future

from budget.work import Urgency
from llm.ahead import ReadAhead


class Reader:
    """Starts readings that are done when told."""

    def __init__(self) -> None:
        self.started: list[tuple[Urgency, Future[str]]] = []

    def start(self, urgency: Urgency) -> "Future[str]":
        self.started.append((urgency, Future()))
        return self.started[-1][1]

    async def read(
        self, ahead: ReadAhead[str], key: str, *, least: int = 0, urgent: bool = False
    ) -> "asyncio.Task[str | None]":
        task = asyncio.get_running_loop().create_task(
            ahead.read(key, len(key.split()), self.start, urgent=urgent, least=least)
        )
        await asyncio.sleep(0)
        return task


async def test_the_same_is_read_once_and_both_get_it() -> None:
    reader, ahead = Reader(), ReadAhead[str]()
    first = await reader.read(ahead, "turn on the")
    again = await reader.read(ahead, "turn on the", urgent=True)
    reader.started[0][1].set_result("read")
    assert await first == await again == "read"
    assert [urgency for urgency, _ in reader.started] == [Urgency.SPECULATION]


async def test_too_few_new_words_wait_for_more_unless_somebody_waits_for_them() -> None:
    reader, ahead = Reader(), ReadAhead[str]()
    task = await reader.read(ahead, "turn on", least=3)
    reader.started[0][1].set_result("")
    await task
    assert await (await reader.read(ahead, "turn on the lamp", least=3)) is None
    assert len(reader.started) == 1
    await reader.read(ahead, "turn on the lamp please", least=3)
    assert len(reader.started) == 2
    reader.started[1][1].set_result("")
    await reader.read(ahead, "turn on the lamp please now", urgent=True)
    assert [urgency for urgency, _ in reader.started] == [*[Urgency.SPECULATION] * 2, Urgency.FIRST_AUDIO]


async def test_nothing_is_read_ahead_beside_another_reading() -> None:
    reader, ahead = Reader(), ReadAhead[str]()
    await reader.read(ahead, "turn on")
    assert await (await reader.read(ahead, "turn on the lamp in")) is None
    assert len(reader.started) == 1


async def test_a_new_sentence_and_what_was_forgotten_are_read_whatever_their_length() -> None:
    reader, ahead = Reader(), ReadAhead[str]()
    for number, (text, forget) in enumerate([("one two three four", False), ("yes", False), ("yes", True)], start=1):
        if forget:
            ahead.forget()
        task = await reader.read(ahead, text, least=3)
        assert len(reader.started) == number
        reader.started[-1][1].set_result("")
        await task
