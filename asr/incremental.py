"""What to decode next while somebody speaks: a sans-I/O policy over one utterance's audio.

Frames go in; decode jobs come out, at most one partial at a time; their transcripts go back in
and become the utterance so far. What is settled is cut away so that the final pass only has the
tail to do, in three ways:

- speech that goes on after a pause: the text decoded at the pause is committed with its audio;
- a long stretch without a pause: where two hypotheses agree, the audio is cut between two words;
- no agreement for too long: the audio is cut at its least speech-like moment and decoded as final.

Times are media seconds. Nothing here decodes, waits or reads a clock.
"""

import itertools
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from asr.agreement import agreed_prefix, cut_after, plain
from asr.transcript import Heard, Transcript, Word

Pcm = NDArray[np.float32]
RATE = 16_000


@dataclass(frozen=True)
class DecodePolicy:
    """When to decode and when to cut (seconds).

    `interval` between partials; `first_after` of speech before the first; a pause of at least
    `pause` commits a stretch of at least `settle`; from `agree_from` on, partials ask for word
    times so that agreed words can be cut; at `longest` the audio is cut whatever it holds (Whisper
    hears 30 s at most).
    """

    interval: float = 0.6
    first_after: float = 0.5
    pause: float = 0.25
    settle: float = 3.0
    agree_from: float = 4.0
    keep_tail: float = 2.0
    longest: float = 24.0


@dataclass(frozen=True, eq=False)
class DecodeJob:
    """One stretch to decode: `pcm` is the utterance's audio from media time `start` to `end`."""

    id: int
    pcm: Pcm
    start: float
    end: float
    speech_seconds: float
    final: bool
    want_words: bool
    cut: bool = False
    """Its end is a cut: more of the utterance comes behind it."""


@dataclass
class _Stretch:
    """The audio not yet committed: chunks from `start`, and when each held speech."""

    start: float
    chunks: list[Pcm] = field(default_factory=list)
    voiced: list[float] = field(default_factory=list)
    """Speech probability of each chunk, for the least speech-like moment to cut at."""
    samples: int = 0

    @property
    def end(self) -> float:
        return self.start + self.samples / RATE

    def audio(self, until: float | None = None) -> Pcm:
        whole = np.concatenate(self.chunks) if self.chunks else np.empty(0, np.float32)
        return whole if until is None else whole[: max(0, round((until - self.start) * RATE))]

    def speech_seconds(self, until: float) -> float:
        time, total = self.start, 0.0
        for chunk, probability in zip(self.chunks, self.voiced, strict=True):
            if time >= until:
                break
            seconds = len(chunk) / RATE
            total += seconds if probability >= 0.5 else 0.0
            time += seconds
        return total

    def drop_before(self, time: float) -> None:
        """Forget the audio before `time`, at the boundary of a sample."""
        excess = round((time - self.start) * RATE)
        while self.chunks and excess >= len(self.chunks[0]):
            excess -= len(self.chunks[0])
            self._shift(len(self.chunks[0]))
            self.chunks.pop(0)
            self.voiced.pop(0)
        if self.chunks and excess > 0:
            self.chunks[0] = self.chunks[0][excess:]
            self._shift(excess)

    def _shift(self, samples: int) -> None:
        self.start += samples / RATE
        self.samples -= samples


class IncrementalTranscript:
    """One utterance: its audio, what is committed of its text, and the latest hypothesis for the rest."""

    def __init__(self, start: float, policy: DecodePolicy | None = None) -> None:
        self._policy = policy or DecodePolicy()
        self._stretch = _Stretch(start)
        self._segments: list[str] = []
        self._hypothesis = ""
        self._words: tuple[Word, ...] = ()
        self._words_from = start
        self._echo = ""
        """The last word before a cut between words: heard again behind it, it is the same word."""
        self._ids = itertools.count(1)
        self._pending: DecodeJob | None = None
        self._paused: Transcript | None = None
        self._paused_at = start
        self._next_partial = start + self._policy.first_after
        self._last_speech = start
        self.language = ""

    def push(self, pcm: Pcm, probability: float) -> None:
        """Append audio (float32 at 16 kHz) with the VAD's probability for it."""
        self._stretch.chunks.append(pcm)
        self._stretch.voiced.append(probability)
        self._stretch.samples += len(pcm)
        if self._stretch.end - self._stretch.start > 4 * self._policy.longest:
            self._stretch.drop_before(self._stretch.end - self._policy.longest)

    def spoke_until(self, time: float) -> None:
        """The VAD's last speech so far: a final job reaches a little past it."""
        self._last_speech = max(self._last_speech, time)

    def heard(self, *, final: bool = False) -> Heard:
        """The utterance so far."""
        settled = _join(self._segments)
        return Heard(_join([*self._segments, self._hypothesis]), len(settled), final)

    def partial_job(self) -> DecodeJob | None:
        """The next decode worth doing while speech goes on; None while one is pending or too little is new."""
        if self._pending is not None:
            return None
        length = self._stretch.end - self._stretch.start
        if length >= self._policy.longest:
            return self._job(self._quietest(), final=True, cut=True)
        if self._stretch.end < self._next_partial:
            return None
        return self._job(self._stretch.end, final=False, want_words=length >= self._policy.agree_from)

    def final_job(self) -> DecodeJob:
        """Everything not yet committed, to a little past the last speech; replaces a pending partial.

        Of more than `longest` seconds only the first part, its job marked `cut`: ask again behind it.
        """
        end = min(self._stretch.end, self._last_speech + 0.25)
        if end - self._stretch.start > self._policy.longest:
            return self._job(self._quietest(), final=True, cut=True)
        return self._job(end, final=True)

    def complete(self, job: DecodeJob, transcript: Transcript | None) -> bool:
        """Take a job's transcript (None: it failed or was dropped). True if it was the latest asked for."""
        if self._pending is None or job.id != self._pending.id:
            return False
        self._pending = None
        self._next_partial = self._stretch.end + self._policy.interval
        if transcript is None:
            return True
        transcript = self._without_echo(transcript)
        self.language = transcript.language
        if job.cut:
            self._commit(transcript.text, job.end)
        elif job.final:
            self._hypothesis, self._words = transcript.text, ()
            self._paused, self._paused_at = transcript, job.end
        else:
            self._accept_partial(transcript, job)
        return True

    def resumed(self, at: float) -> None:
        """Speech goes on at `at` after a pause whose text may be there: commit it if the pause was real."""
        pending, self._pending = self._pending, None
        paused, self._paused = self._paused, None
        self._next_partial = min(self._next_partial, self._stretch.end + self._policy.first_after)
        if paused is None or pending is not None:
            return
        quiet = at - self._last_speech
        if quiet >= self._policy.pause and self._paused_at - self._stretch.start >= self._policy.settle:
            self._commit(paused.text, self._last_speech + quiet / 2)

    def _accept_partial(self, transcript: Transcript, job: DecodeJob) -> None:
        text, words = transcript.text, transcript.words
        if not text.strip():
            return
        if not words:
            self._hypothesis, self._words = text, ()
            return
        before = self._words if self._words_from == job.start else ()
        length = job.end - job.start
        agreed = agreed_prefix(before, words)
        cut = cut_after(words, agreed, earliest=self._policy.keep_tail, latest=length - self._policy.keep_tail)
        self._hypothesis, self._words, self._words_from = text, words, job.start
        if cut:
            middle = (words[cut - 1].end + words[cut].start) / 2
            self._commit("".join(word.text for word in words[:cut]), job.start + middle)
            self._echo = plain(words[cut - 1].text)
            self._hypothesis = "".join(word.text for word in words[cut:]).strip()
            self._words = tuple(Word(w.text, w.start - middle, w.end - middle) for w in words[cut:])
            self._words_from = self._stretch.start

    def _without_echo(self, transcript: Transcript) -> Transcript:
        """Without a first word that is still the last one before the cut."""
        first, _, rest = transcript.text.strip().partition(" ")
        if not self._echo or plain(first) != self._echo:
            return transcript
        return replace(transcript, text=rest, words=transcript.words[1:])

    def _commit(self, text: str, until: float) -> None:
        if text.strip():
            self._segments.append(text.strip())
        self._hypothesis, self._words, self._paused, self._echo = "", (), None, ""
        self._stretch.drop_before(until)

    def _job(self, end: float, *, final: bool, want_words: bool = False, cut: bool = False) -> DecodeJob:
        start = self._stretch.start
        self._pending = DecodeJob(
            id=next(self._ids),
            pcm=self._stretch.audio(end),
            start=start,
            end=end,
            speech_seconds=self._stretch.speech_seconds(end),
            final=final,
            want_words=want_words,
            cut=cut,
        )
        return self._pending

    def _quietest(self) -> float:
        """The end of the least speech-like 100 ms in the second half of the `longest` seconds that a job may have."""
        time = self._stretch.start
        half, last = time + self._policy.longest / 2, time + self._policy.longest - 1.0
        best, lowest = last, float("inf")
        recent: list[float] = []
        for chunk, probability in zip(self._stretch.chunks, self._stretch.voiced, strict=True):
            recent = [*recent[-4:], probability]
            time += len(chunk) / RATE
            if half <= time <= last and sum(recent) < lowest:
                best, lowest = time - 0.05, sum(recent)
        return best


def _join(texts: list[str]) -> str:
    """Stretches as one text: a space between them, except where Chinese, Japanese or Thai meets itself."""
    joined = ""
    for text in (t.strip() for t in texts):
        if not text:
            continue
        spaceless = joined and ord(joined[-1]) >= 0x2E80 and ord(text[0]) >= 0x2E80
        joined += text if not joined or spaceless else " " + text
    return joined
