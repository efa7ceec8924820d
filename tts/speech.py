"""The synthesiser's Protocol: one clause of speakable text in, chunks of audio out."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.float32]


@dataclass(frozen=True)
class Voice:
    """How to speak: the engine's `name` for the voice (empty: its default), language and speed (1.0 = normal)."""

    name: str = ""
    language: str = "en"
    speed: float = 1.0


class Synthesizer(Protocol):
    """Speaks clauses; shared by all calls, no state between clauses."""

    rate: int
    """Hz of the audio it yields."""

    def voices(self) -> tuple[str, ...]:
        """Names of the voices that it has, the default one first."""
        ...

    def speak(self, text: str, voice: Voice, *, deadline: float = float("inf")) -> AsyncGenerator[Pcm, None]:
        """Yield the clause's audio (float32 mono in [-1, 1] at `rate`) as it is made.

        Raises `EngineError` when the engine fails and could not be brought back.
        """
        ...

    async def warm(self) -> None:
        """Load, and speak once into nothing. Raises `EngineError`."""
        ...

    async def close(self) -> None:
        """Free everything."""
        ...
