"""Playout: pace, gate, heard cursor, on a virtual clock."""

import asyncio
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from voice.playout import LEAD, Playout, PlayoutBuffer


class Leg:
    rate, kind, greets = 16_000, "test", False

    def __init__(self) -> None:
        self.sent: list[float] = []

    async def play(self, pcm: np.ndarray) -> None:
        assert len(pcm) == 320
        self.sent.append(asyncio.get_running_loop().time())


async def ignore(_: object) -> None:
    return None


def playout(leg: Leg, texts: list[str] | None = None) -> Playout:
    async def note(text: str) -> None:
        if texts is not None:
            texts.append(text)

    return Playout(leg, 16_000, on_first=ignore, on_text=note)


def audio(seconds: float) -> np.ndarray:
    return np.full(int(16_000 * seconds), 0.1, np.float32)


def test_audio_goes_out_at_real_time_pace_and_never_far_ahead(run_virtual: Callable) -> None:
    leg = Leg()

    async def scenario() -> float:
        out, gate = playout(leg), asyncio.Event()
        gate.set()
        out.put("hello", audio(1.0))
        out.finish()
        await out.run(gate)
        return asyncio.get_running_loop().time()

    ended = run_virtual(scenario())
    assert len(leg.sent) == 50
    for i, at in enumerate(leg.sent):
        assert i * 0.02 - LEAD - 1e-6 <= at - leg.sent[0] <= i * 0.02 + 1e-6
    assert abs(ended - 1.0) < 0.03, "run ends when the caller has heard it all"


def test_nothing_is_sent_before_the_gate_opens(run_virtual: Callable) -> None:
    leg = Leg()

    async def scenario() -> None:
        out, gate = playout(leg), asyncio.Event()
        out.put("hello", audio(0.2))
        out.finish()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(out.run(gate))
            await asyncio.sleep(3)
            assert leg.sent == []
            assert out.heard(3.0) == 0.0
            gate.set()

    run_virtual(scenario())
    assert leg.sent[0] == 3.0


def test_the_heard_cursor_follows_the_clock_not_what_was_sent(run_virtual: Callable) -> None:
    async def scenario() -> None:
        out, gate = playout(Leg()), asyncio.Event()
        gate.set()
        out.put("one two", audio(1.0))
        out.put(" three four", audio(1.0))
        out.finish()
        task = asyncio.get_running_loop().create_task(out.run(gate))
        await asyncio.sleep(1.25)
        heard = out.heard(asyncio.get_running_loop().time())
        assert abs(heard - 1.25) < 0.03
        assert out.heard_text(heard) == "one two"
        assert out.heard(1.25, unplayed=0.5) <= 1.25 + LEAD - 0.5 + 0.04
        task.cancel()
        await asyncio.wait([task])

    run_virtual(scenario())


def test_a_gap_in_synthesis_is_not_counted_as_heard(run_virtual: Callable) -> None:
    async def scenario() -> None:
        out, gate = playout(Leg()), asyncio.Event()
        gate.set()
        task = asyncio.get_running_loop().create_task(out.run(gate))
        out.put("one", audio(0.5))
        await asyncio.sleep(2.0)
        assert out.heard(2.0) <= 0.5
        out.put(" two", audio(0.5))
        out.finish()
        await task
        assert abs(asyncio.get_running_loop().time() - 2.5) < 0.05

    run_virtual(scenario())


def test_the_text_is_told_as_its_audio_begins(run_virtual: Callable) -> None:
    texts: list[str] = []

    async def scenario() -> None:
        out, gate = playout(Leg(), texts), asyncio.Event()
        gate.set()
        out.put("one", audio(0.5))
        out.put(" (smile)", np.zeros(0, np.float32))
        out.put(" two", audio(0.5))
        out.finish()
        await out.run(gate)

    run_virtual(scenario())
    assert "".join(texts) == "one (smile) two"
    assert texts[0] == "one"


@given(st.lists(st.integers(0, 2000), max_size=12))
def test_no_sample_is_lost_or_invented_but_the_padding_of_the_last_frame(sizes: list[int]) -> None:
    buffer = PlayoutBuffer(16_000)
    for i, size in enumerate(sizes):
        buffer.add(f"c{i}", np.ones(size, np.float32))
    buffer.finish()
    out = []
    while (frame := buffer.next_frame()) is not None:
        out.append(frame)
    total = np.concatenate(out) if out else np.zeros(0)
    assert total.sum() == sum(sizes) == buffer.sent
    assert buffer.complete
    assert abs(sum(clause.seconds for clause in buffer.clauses()) - sum(sizes) / 16_000) < 1e-6
