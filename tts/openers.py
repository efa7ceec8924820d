"""Remembers the sound of the short clauses that replies begin with: "Of course,", "I'm sorry, but", "Sure!".

A voice agent opens its answers with the same few phrases, and the caller waits for exactly those. What
was spoken once is spoken again at once. Only a few short clauses without figures are kept, and the
least recently used goes first.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing

import numpy as np

from tts.speech import Pcm, Synthesizer, Voice

_KEPT = 64
"""Clauses: some 6 MB of audio."""
_WORDS, _LETTERS = 4, 32


class OpenerMemory:
    """A `Synthesizer` in front of another one."""

    def __init__(self, engine: Synthesizer, *, kept: int = _KEPT) -> None:
        self._engine = engine
        self._kept = kept
        self._known: OrderedDict[tuple[str, Voice], Pcm] = OrderedDict()
        self.rate = engine.rate

    def voices(self) -> tuple[str, ...]:
        """See `Synthesizer`."""
        return self._engine.voices()

    async def speak(self, text: str, voice: Voice, *, deadline: float = float("inf")) -> AsyncGenerator[Pcm, None]:
        """See `Synthesizer`."""
        key = (text.strip(), voice)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            yield known
            return
        chunks: list[Pcm] = []
        async with aclosing(self._engine.speak(text, voice, deadline=deadline)) as audio:
            async for pcm in audio:
                chunks.append(pcm)
                yield pcm
        if chunks and _short(text):
            self._known[key] = np.concatenate(chunks)
            if len(self._known) > self._kept:
                self._known.popitem(last=False)

    async def warm(self) -> None:
        """See `Synthesizer`."""
        await self._engine.warm()

    async def close(self) -> None:
        """See `Synthesizer`."""
        await self._engine.close()


def _short(text: str) -> bool:
    few = len(text.split()) <= _WORDS and len(text) <= _LETTERS
    return few and not any(c.isdigit() for c in text)
