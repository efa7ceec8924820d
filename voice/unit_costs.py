"""Times each kind of work once the engines are warm and before any call: what the twin reckons with."""

import contextlib
import json
from contextlib import suppress
from dataclasses import asdict, astuple
from pathlib import Path
from time import perf_counter

import numpy as np

from budget.unit_costs import UnitCosts
from budget.work import Urgency
from llm.chat import ChatSession, Message, ReplyOptions
from voice.calibrate import best_time, keep
from voice.engines import Engines
from voice.warmup import known_clip, spoken

_FIRST_TOKENS, _REPLY_TOKENS = 8, 28
_ASKED = ("How is the weather in the city today?", "Can you tell me when the next train leaves?", "What shall I cook?")
_FIRST = ("Well, I think", "Yes, it was", "No, you can")
"""One for each run of `best_time`: short clauses that were spoken once are kept."""
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

    openers = iter(_FIRST)
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
        first_clause=await best_time(lambda: spoken(engines.synthesizer, next(openers))),
        clause=await best_time(lambda: spoken(engines.synthesizer, _CLAUSE)),
    )


def best_known(found: UnitCosts, machine: str, file: Path) -> UnitCosts:
    """The shortest time of each piece, now or at earlier starts of the same machine with the same models.

    What else runs at a start makes pieces slower, never faster. Kept in `file`; one that can't be read or
    written is as good as none.
    """
    with suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(file.read_text())
        if kept["machine"] == machine:
            known = UnitCosts(**kept["seconds"])
            found = UnitCosts(*(min(a, b) for a, b in zip(astuple(found), astuple(known), strict=True)))
    keep(file, {"machine": machine, "seconds": asdict(found)})
    return found


async def _chat(session: ChatSession) -> tuple[float, float, float]:
    """Reading ahead, the first words of a reply, and the rest of it."""
    ahead, first, whole = [], [], []
    for asked in _ASKED:
        prompt = [Message("system", "Answer briefly."), Message("user", asked)]
        began = perf_counter()
        await session.prefill(prompt, urgent=True)
        ahead.append(perf_counter() - began)
        began, tokens = perf_counter(), 0
        options = ReplyOptions(temperature=0.0, max_tokens=_REPLY_TOKENS)
        async with contextlib.aclosing(session.reply(prompt, options)) as reply:
            async for _ in reply:
                tokens += 1
                if tokens == _FIRST_TOKENS:
                    first.append(perf_counter() - began)
        whole.append(perf_counter() - began)
    words = min(first, default=min(whole))
    return min(ahead), words, max(0.0, min(whole) - words)
