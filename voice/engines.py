"""The engines behind their Protocols: as the service shares them, and as one call uses them."""

from collections.abc import Callable
from dataclasses import dataclass

from asr.recognizer import Recognizer
from budget.governor import Effort
from llm.chat import ChatModel, ChatSession
from tts.speech import Synthesizer
from vad.speech import SpeechDetector
from voice.pause import SoundJudge
from voice.reply import Phrases


@dataclass(frozen=True)
class Engines:
    """The shared engines, loaded and warm."""

    recognizer: Recognizer
    chat: ChatModel
    synthesizer: Synthesizer
    detector: Callable[[], SpeechDetector]
    judge: SoundJudge | None
    """Judges by its sound whether a turn is over; None: silence decides."""
    languages: frozenset[str]
    phrases: Phrases


@dataclass(frozen=True)
class CallEngines:
    """The engines as one call uses them; `detector` and `chat` are its own, the rest is shared."""

    recognizer: Recognizer
    detector: SpeechDetector
    judge: SoundJudge | None
    chat: ChatSession
    synthesizer: Synthesizer
    phrases: Phrases
    languages: frozenset[str]
    effort: Callable[[], Effort] = Effort
    """How much may be done for this call now, beyond the answer itself: the governor's word."""
