"""Times each kind of work once the engines are warm and before any call: what the twin reckons with."""

import contextlib
import itertools
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from budget.unit_costs import UnitCosts
from budget.work import Urgency
from llm.chat import ChatSession, Message, ReplyOptions
from voice.calibrate import best_time
from voice.engines import Engines
from voice.kept import keep, recall
from voice.warmup import known_clip, spoken

_FIRST_TOKENS, _REPLY_TOKENS = 8, 28
_ASKED = ("How is the weather in the city today?", "Can you tell me when the next train leaves?", "What shall I cook?")
_FIRST = "I see {}"
"""Of a figure between 1 and 9: short clauses that were spoken once are kept, but none with a figure."""
_CLAUSE = "and that is what most people like about the town in the summer."
_HEARD = 8
"""Seconds of sound that are judged."""


async def measure(engines: Engines) -> UnitCosts:
    """Some two seconds on two cores. Raises what the engines raise."""
    clip = known_clip()
    silence = np.zeros(_HEARD * 16_000, np.float32)

    async def decode() -> None:
        await engines.recognizer.decode(clip, Urgency.FIRST_AUDIO)

    async def judge() -> None:
        if engines.judge is not None:
            await engines.judge(silence)

    figures = itertools.cycle(range(1, 10))
    session = engines.chat.open()
    assert session is not None, "nobody has called yet"
    try:
        ahead, first, rest = await _chat(session)
    finally:
        await session.close()
    return UnitCosts(
        decode=await best_time(decode),
        judge=await best_time(judge),
        ahead=ahead,
        first_words=first,
        more_words=rest,
        first_clause=await best_time(lambda: spoken(engines.synthesizer, _FIRST.format(next(figures)))),
        clause=await best_time(lambda: spoken(engines.synthesizer, _CLAUSE)),
    )


@dataclass(frozen=True)
class Probe:
    """Seconds that one piece of each engine took just now, as `measure` times it; None: it was not timed."""

    asr: float
    tts: float
    llm: float | None


async def probe(engines: Engines, *, chat: bool) -> Probe:
    """Time one piece of each engine, behind all that somebody waits for. Without `chat` the model is left alone.

    Raises what the engines raise.
    """
    began = perf_counter()
    await engines.recognizer.decode(known_clip(), Urgency.SPECULATION)
    decoded = perf_counter()
    await spoken(engines.synthesizer, _CLAUSE)
    said = perf_counter()
    session = engines.chat.open() if chat else None
    words = None
    if session is not None:
        try:
            words = await _first_words(session, _ASKED[0])
        finally:
            await session.close()
    return Probe(decoded - began, said - decoded, words)


def best_known(found: UnitCosts, machine: str, file: Path) -> UnitCosts:
    """The shortest time of each piece, now or at earlier starts of the same machine with the same models and threads.

    What else runs at a start makes pieces slower, never faster. Kept in `file`.
    """
    with suppress(TypeError):
        known = UnitCosts(**recall(file, machine))
        found = UnitCosts(*(min(a, b) for a, b in zip(astuple(found), astuple(known), strict=True)))
    keep(file, machine, asdict(found))
    return found


async def _chat(session: ChatSession) -> tuple[float, float, float]:
    """Reading ahead, the first words of a reply, and the rest of it."""
    ahead, first, whole = [], [], []
    for asked in _ASKED:
        began = perf_counter()
        await session.prefill(_prompt(asked), urgent=True)
        ahead.append(perf_counter() - began)
        words, all_of_it = await _reply(session, asked, _REPLY_TOKENS)
        first.append(words)
        whole.append(all_of_it)
    return min(ahead), min(first), max(0.0, min(whole) - min(first))


async def _first_words(session: ChatSession, asked: str) -> float:
    """The first words of a reply whose prompt was read ahead."""
    await session.prefill(_prompt(asked), urgent=True)
    return (await _reply(session, asked, _FIRST_TOKENS))[0]


async def _reply(session: ChatSession, asked: str, tokens: int) -> tuple[float, float]:
    """Seconds to the first words of a reply of so many tokens, and to its end."""
    began = perf_counter()
    first, count = None, 0
    async with contextlib.aclosing(
        session.reply(_prompt(asked), ReplyOptions(temperature=0.0, max_tokens=tokens))
    ) as reply:
        async for _ in reply:
            count += 1
            if count == _FIRST_TOKENS:
                first = perf_counter() - began
    whole = perf_counter() - began
    return first or whole, whole


def _prompt(asked: str) -> list[Message]:
    return [Message("system", "Answer briefly."), Message("user", asked)]
