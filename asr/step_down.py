"""Two sizes of a recogniser, both resident: the smaller one hears while answers would otherwise be late.

Loading a model takes seconds that a call does not have, so the smaller one is there from the start. Either one may
decode any piece of a turn: what is committed is text.
"""

from asr.recognizer import DecodeRequest, Recognizer
from asr.transcript import Transcript
from budget.work import Urgency


class StepDown:
    """Hands each request to the usual recogniser, or to the smaller one if it asks for that. See `Recognizer`."""

    def __init__(self, usual: Recognizer, smaller: Recognizer) -> None:
        self._usual, self._smaller = usual, smaller

    @property
    def languages(self) -> frozenset[str]:
        """Codes that the usual model knows."""
        return self._usual.languages

    def spare(self, own: int) -> bool:
        """See `Recognizer`."""
        return self._usual.spare(own) and self._smaller.spare(own)

    async def decode(self, request: DecodeRequest, urgency: Urgency, *, deadline: float = float("inf")) -> Transcript:
        """See `Recognizer`. A language that the smaller model does not know is left to the usual one."""
        small = request.smaller and request.language in self._smaller.languages
        return await (self._smaller if small else self._usual).decode(request, urgency, deadline=deadline)

    def close(self) -> None:
        """See `Recognizer`."""
        self._usual.close()
        self._smaller.close()
