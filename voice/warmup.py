"""Makes the engines ready at start-up: the memory of the largest work is taken, and the recogniser shown to hear.

Some pairs of driver and library return empty text without an error.
"""

import asyncio
import contextlib
from dataclasses import replace
from importlib.resources import files

import numpy as np

from asr.agreement import plain
from asr.recognizer import DecodeRequest, Recognizer
from budget.deadline import Stage
from budget.errors import EngineError
from budget.work import Urgency
from transport.frame import from_pcm16
from tts.speech import Synthesizer, Voice

_CLIP = "warmup.pcm"
_WORDS = "ask not what your country can do for you"
"""John F. Kennedy, 20 January 1961 (public domain), 16 kHz 16-bit, the words above."""


def known_clip() -> DecodeRequest:
    """The clip, as a request for its words."""
    pcm = np.asarray(from_pcm16((files("voice") / _CLIP).read_bytes()), np.float32)
    return DecodeRequest(pcm, "en", len(pcm) / 16_000)


LONG_CLAUSE = "This is a sentence of the length that one clause has at most, so whatever memory it takes is taken now"
"""Spoken at the start: the longest clause that is spoken in one piece."""
_LONGEST = 28
"""Seconds of the longest stretch that is decoded."""


async def warm_recognizer(recognizer: Recognizer, finals: int, partials: int) -> None:
    """Decode the longest stretch, so many of either kind at once: this memory is taken before any call."""
    clip = known_clip()
    pcm = np.tile(clip.pcm, 1 + _LONGEST * 16_000 // len(clip.pcm))[: _LONGEST * 16_000]
    request = DecodeRequest(pcm, "en", float(_LONGEST), want_words=True)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(finals):
            tasks.create_task(recognizer.decode(request, Urgency.CONTINUATION))
        for _ in range(partials):
            tasks.create_task(recognizer.decode(replace(request, final=False), Urgency.PARTIAL))


async def warm_synthesizer(synthesizer: Synthesizer) -> None:
    """Speak the longest clause twice at once, as happens when one is due and the other is not."""
    await synthesizer.warm()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(spoken(synthesizer, LONG_CLAUSE))
        tasks.create_task(spoken(synthesizer, LONG_CLAUSE, deadline=float("-inf")))


async def spoken(synthesizer: Synthesizer, text: str, *, deadline: float = float("inf")) -> None:
    """Have a text spoken to its end, for nobody."""
    async with contextlib.aclosing(synthesizer.speak(text, Voice(), deadline=deadline)) as audio:
        async for _ in audio:
            pass


async def check_recognizer(recognizer: Recognizer) -> None:
    """Transcribe a known clip. Raises `EngineError` if most of its words are missing."""
    transcript = await recognizer.decode(known_clip(), Urgency.FIRST_AUDIO)
    heard = {plain(word) for word in transcript.text.split()}
    wanted = _WORDS.split()
    if sum(word in heard for word in wanted) < len(wanted) * 0.6:
        raise EngineError(
            Stage.ASR,
            f"the recogniser heard {transcript.text!r} where a known clip says {_WORDS!r}: "
            "its runtime does not work on this machine",
        )
