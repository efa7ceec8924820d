"""Guards against text that nobody spoke: loops, phrases invented over noise, too many words for the time.

Whisper fills silence, hum and music with likely phrases. No single number tells; the time that
holds speech by the VAD, the no-speech probability and the mean log-probability do together.
Thresholds were set on the recordings in `tests/data` (see `docs/latency.md`).
"""

import re
from dataclasses import dataclass, replace
from enum import Enum

from asr.agreement import plain
from asr.transcript import Transcript

TOKENS_A_SECOND = 5
WIDE_TOKENS_A_SECOND = 10
"""Where a character is a token or more: Chinese, Japanese, Thai, ..."""
SPARE_TOKENS = 8


class Judgement(Enum):
    """What to do with a transcript."""

    KEEP = "keep"
    RETRY = "retry"
    """Decode again with a longer context."""
    DROP = "drop"


@dataclass(frozen=True)
class Verdict:
    """A judgement and its reason, a fixed word for logs and metrics."""

    judgement: Judgement
    reason: str = ""


_INVENTED = {
    plain(phrase)
    for phrase in (
        "Thank you.",
        "Thanks for watching!",
        "Thank you for watching.",
        "Please subscribe.",
        "Subtitles by the Amara.org community",
        "I'm not going to let you down.",
        "Bye.",
        "you",
        "BAH!",
        "字幕由Amara.org社区提供",
        "谢谢观看",
        "请不吝点赞订阅转发打赏支持明镜与点点栏目",
    )
}
"""Phrases known from Whisper's training captions; dropped only where the evidence is weak too."""


_DIGITS = frozenset("zero oh one two three four five six seven eight nine double".split())
"""Words that people do say four times in a row."""


def token_bound(seconds: float, *, wide: bool = False) -> int:
    """The most tokens that speech of this length can need; a loop is decoded to this bound, so it is tight.

    The fastest English recording of the tests has 3.7 tokens a second.
    """
    return int(seconds * (WIDE_TOKENS_A_SECOND if wide else TOKENS_A_SECOND)) + SPARE_TOKENS


def loops(text: str) -> bool:
    """Whether the text repeats itself: a run of 1-8 words three times over, or characters eight times."""
    words = [plain(word) for word in text.split()]
    for size in range(1, 9):
        for start in range(len(words) - 3 * size + 1):
            run = words[start : start + size]
            if not any(run) or (size == 1 and (len(run[0]) <= 1 or run[0].isdigit() or run[0] in _DIGITS)):
                continue
            again = words[start + size : start + 3 * size]
            if again == run * 2 and (size > 2 or words[start + 3 * size : start + 4 * size] == run):
                return True
    return re.search(r"(.{1,6}?)\1{7,}", plain(text)) is not None


FASTEST_SPEECH = 6.0
"""Tokens a second of speech that nobody reaches: text that comes faster says things that were said once."""
_COPIES = {1: 3.0, 2: 2.0}
"""How often a phrase of so many words must be repeated; longer ones count from half a repetition on."""


def said_once(transcript: Transcript, speech_seconds: float) -> Transcript:
    """The transcript with a phrase that it repeats at its end kept once, if nobody could have said it all.

    A short context makes Whisper repeat a whole utterance, most often word for word right; the
    first copy is the transcript. Over noise (no speech likely) nothing is cut: the loop is the
    evidence. Texts written without spaces stay as they are.
    """
    fast = transcript.tokens > FASTEST_SPEECH * max(0.3, speech_seconds)
    if not fast or transcript.no_speech_probability > 0.6:
        return transcript
    words = transcript.text.split()
    kept = _first_copy([plain(word) for word in words])
    if kept == len(words):
        return transcript
    share = kept / len(words)
    return replace(
        transcript,
        text=" ".join(words[:kept]),
        words=transcript.words[:kept],
        tokens=round(transcript.tokens * share),
        truncated=False,
    )


def _first_copy(words: list[str]) -> int:
    """Where the first copy of a phrase ends that goes on repeating to the end of the text; all if there is none."""
    count = len(words)
    for start in range(count):
        for size in range(1, count - start):
            copies = (count - start) / size
            if copies < _COPIES.get(size, 1.5):
                break
            if all(words[i] == words[i - size] for i in range(start + size, count)):
                return start + size
    return count


def judge(transcript: Transcript, speech_seconds: float, *, last_try: bool) -> Verdict:
    """Whether to believe the transcript of audio that held `speech_seconds` of speech by the VAD.

    On the `last_try` there is no better decode to ask for: a loop is then dropped.
    """
    again = Judgement.DROP if last_try else Judgement.RETRY
    text = transcript.text.strip()
    if not plain(text):
        return Verdict(Judgement.KEEP if not text else Judgement.DROP, "no words")
    if loops(text):
        return Verdict(again, "loop")
    if transcript.truncated:
        return Verdict(Judgement.KEEP if last_try else again, "too many tokens")
    unsure = transcript.log_probability < -1.0
    if transcript.no_speech_probability > 0.6 and unsure:
        return Verdict(Judgement.DROP, "no speech")
    if (
        plain(text) in _INVENTED
        and speech_seconds < 1.0
        and (transcript.no_speech_probability > 0.4 or transcript.log_probability < -0.8)
    ):
        return Verdict(Judgement.DROP, "invented phrase")
    return Verdict(Judgement.KEEP)
