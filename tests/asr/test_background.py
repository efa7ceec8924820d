"""Which of the two recognisers hears what."""

from typing import cast

import numpy as np

from asr.background import SplitRecognizer
from asr.recognizer import DecodeRequest
from asr.transcript import Transcript
from asr.whisper import WhisperRecognizer
from budget.work import Urgency


class Named:
    """Answers with its name."""

    def __init__(self, name: str, *, spare: bool = True) -> None:
        self.name, self._spare = name, spare

    def spare(self, own: int) -> bool:
        return self._spare

    async def decode(self, request: DecodeRequest, urgency: Urgency, *, deadline: float = 0.0) -> Transcript:
        return Transcript(self.name)


def split(finals: Named, partials: Named) -> SplitRecognizer:
    return SplitRecognizer(cast(WhisperRecognizer, finals), cast(WhisperRecognizer, partials))


async def test_what_may_become_the_final_transcript_is_never_decoded_in_the_background() -> None:
    recognizer = split(Named("finals"), Named("partials"))
    for final, urgency, name in (
        (True, Urgency.FIRST_AUDIO, "finals"),
        (True, Urgency.PARTIAL, "finals"),
        (False, Urgency.PARTIAL, "partials"),
    ):
        request = DecodeRequest(np.zeros(1600, np.float32), "en", 0.1, final=final)
        assert (await recognizer.decode(request, urgency)).text == name


def test_there_is_time_to_spare_when_both_have_it() -> None:
    assert split(Named("a"), Named("b")).spare(0)
    assert not split(Named("a", spare=False), Named("b")).spare(0)
    assert not split(Named("a"), Named("b", spare=False)).spare(0)
