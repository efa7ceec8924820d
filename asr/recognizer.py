"""The recogniser's Protocol: small, so that another engine fits beside Whisper."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asr.transcript import Transcript
from budget.work import Urgency

Pcm = NDArray[np.float32]


@dataclass(frozen=True)
class DecodeRequest:
    """One stretch of speech to decode.

    `pcm` float32 at 16 kHz, 28 s at most. `speech_seconds` is the time by the VAD that holds
    speech; guards measure the text against it. `final` asks for the most accurate text that
    the engine has, otherwise the quickest. `want_words` asks for word times. `smaller`: by the
    smaller model if there is one (`asr.step_down`).
    """

    pcm: Pcm
    language: str
    speech_seconds: float
    final: bool = True
    want_words: bool = False
    smaller: bool = False


class Recognizer(Protocol):
    """Turns speech into text; shared by all calls, no state between requests."""

    @property
    def languages(self) -> frozenset[str]:
        """Codes of the languages that it knows."""
        ...

    def spare(self, own: int) -> bool:
        """Whether, beside the caller's `own` decodes, the machine is quiet enough for one that nobody waits for.

        It would begin at once, and disturb no other call.
        """
        ...

    async def decode(self, request: DecodeRequest, urgency: Urgency, *, deadline: float = float("inf")) -> Transcript:
        """The text of the request's audio; empty when there is no speech in it.

        Raises `EngineError` when the engine fails and `QueueFull` when a partial is not worth
        its place in the queue.
        """
        ...

    def close(self) -> None:
        """Let the decodes in progress finish and end the threads."""
        ...
