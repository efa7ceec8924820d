"""What was heard: words, text, and how sure the recogniser is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """One word with its leading space if it has one; times are seconds from the clip's start."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Transcript:
    """The text of one decoded stretch of audio.

    `words` only where they were asked for. `log_probability` is the mean over tokens (natural
    log), `no_speech_probability` Whisper's own, `tokens` how many were generated, `truncated`
    that the token bound ended it.
    """

    text: str
    words: tuple[Word, ...] = ()
    language: str = "en"
    log_probability: float = 0.0
    no_speech_probability: float = 0.0
    tokens: int = 0
    truncated: bool = False


@dataclass(frozen=True)
class Heard:
    """The caller's utterance so far: `text[:committed]` (characters) won't change any more."""

    text: str
    committed: int = 0
    final: bool = False
