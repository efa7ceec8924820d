"""Which of two models hears."""

import numpy as np
import pytest

from asr.recognizer import DecodeRequest
from asr.step_down import StepDown
from asr.transcript import Transcript
from budget.work import Urgency


class Named:
    """Answers with its name."""

    def __init__(self, name: str, *languages: str, spare: bool = True) -> None:
        self.name, self.languages, self._spare, self.closed = name, frozenset(languages), spare, False

    def spare(self, own: int) -> bool:
        return self._spare

    async def decode(self, request: DecodeRequest, urgency: Urgency, *, deadline: float = 0.0) -> Transcript:
        return Transcript(self.name)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("language", "smaller", "heard_by"),
    [("en", False, "usual"), ("en", True, "small"), ("zh", True, "usual"), ("auto", True, "usual")],
)
async def test_the_smaller_one_hears_when_asked_to_and_only_what_it_knows(
    language: str, smaller: bool, heard_by: str
) -> None:
    both = StepDown(Named("usual", "en", "zh"), Named("small", "en"))
    request = DecodeRequest(np.zeros(1600, np.float32), language, 0.1, smaller=smaller)
    assert (await both.decode(request, Urgency.FIRST_AUDIO)).text == heard_by
    assert both.languages == {"en", "zh"}


def test_there_is_time_to_spare_when_both_have_it_and_both_are_closed() -> None:
    usual, small = Named("usual"), Named("small", spare=False)
    both = StepDown(usual, small)
    assert not both.spare(0)
    both.close()
    assert usual.closed and small.closed
