"""Two recognisers of one model: one for final decodes, one for partial transcripts in the background.

A decode that has begun can't be stopped, and the threads of an instance have one priority for good.
So partials get an instance of their own whose threads are so nice that they run where the cores are
idle: the system's scheduler stops and resumes them within a millisecond. It costs the weights once more.
"""

from asr.recognizer import DecodeRequest
from asr.transcript import Transcript
from asr.whisper import WhisperRecognizer
from budget.work import Urgency


class SplitRecognizer:
    """Hands each request to the recogniser of its kind. See `Recognizer`."""

    def __init__(self, finals: WhisperRecognizer, partials: WhisperRecognizer) -> None:
        self._finals, self._partials = finals, partials

    @property
    def languages(self) -> frozenset[str]:
        """Codes that the model knows."""
        return self._finals.languages

    def spare(self, own: int) -> bool:
        """See `Recognizer`: whether either kind would begin at once, and disturb nobody."""
        return self._finals.spare(own) and self._partials.spare(own)

    async def decode(self, request: DecodeRequest, urgency: Urgency, *, deadline: float = float("inf")) -> Transcript:
        """See `Recognizer`."""
        chosen = self._finals if request.final else self._partials
        return await chosen.decode(request, urgency, deadline=deadline)

    def close(self) -> None:
        """Let the decodes in progress finish and end the threads."""
        self._finals.close()
        self._partials.close()
