"""Checks at start-up that the recogniser hears: some driver and library pairs return empty text without an error."""

from importlib.resources import files

import numpy as np

from asr.agreement import plain
from asr.recognizer import DecodeRequest, Recognizer
from budget.deadline import Stage
from budget.errors import EngineError
from budget.work import Urgency
from transport.frame import from_pcm16

_CLIP = "warmup.pcm"
_WORDS = "ask not what your country can do for you"
"""John F. Kennedy, 20 January 1961 (public domain), 16 kHz 16-bit, the words above."""


def known_clip() -> DecodeRequest:
    """The clip, as a request for its words."""
    pcm = np.asarray(from_pcm16((files("voice") / _CLIP).read_bytes()), np.float32)
    return DecodeRequest(pcm, "en", len(pcm) / 16_000)


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
