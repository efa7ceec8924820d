"""What to decode next while somebody speaks: a sans-I/O policy over one utterance's audio.

Frames go in; decode jobs come out, at most one partial at a time; their transcripts go back in
and become the utterance so far. What is settled is cut away so that the final pass only has the
tail to do, in three ways:

- speech that goes on after a pause: the text decoded at the pause is committed with its audio;
- a long stretch without a pause: where two hypotheses agree, the audio is cut between two words;
- no agreement for too long: the audio is cut at its least speech-like moment and decoded as final.

The final pass begins before the pause is certain: whenever the level of the speech dips, all that
is not committed is decoded as if the turn ended there. If nothing but quiet follows, that decode
is the final one, and the time that the VAD took to be sure was not lost.

Times are media seconds. Nothing here decodes, waits or reads a clock.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from asr.agreement import agreed_prefix, cut_after, plain
from asr.dip import DipDetector
from asr.transcript import Heard, Transcript, Word

Pcm = NDArray[np.float32]
RATE = 16_000
_ENDS = ".?!…"


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
    spared: float = 1.2
    """How much longer both get while the recogniser is busy."""
    pause: float = 0.25
    settle: float = 2.5
    agree_from: float = 4.0
    keep_tail: float = 2.0
    longest: float = 24.0
    seam: float = 0.12
    """How far a cut between two words may move to where it is quietest."""
    early_after: float = 0.2
    """From one decode at a dip to the next, at least."""
    lag: float = 0.16
    """How much of the quiet after speech the VAD may still take for speech."""


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
    early: bool = False
    """Begun at a dip, before anybody asked for the final transcript."""


@dataclass(frozen=True, eq=False)
class _Chunk:
    """A few samples with the VAD's speech probability for them and their level (root mean square)."""

    pcm: Pcm
    voiced: float
    level: float

    @property
    def seconds(self) -> float:
        return len(self.pcm) / RATE


@dataclass
class _Stretch:
    """The audio not yet committed: chunks from `start` on."""

    start: float
    chunks: list[_Chunk] = field(default_factory=list)
    samples: int = 0

    @property
    def seconds(self) -> float:
        return self.samples / RATE

    @property
    def end(self) -> float:
        return self.start + self.seconds

    def push(self, chunk: _Chunk) -> None:
        self.chunks.append(chunk)
        self.samples += len(chunk.pcm)

    def audio(self, until: float) -> Pcm:
        whole = np.concatenate([chunk.pcm for chunk in self.chunks]) if self.chunks else np.empty(0, np.float32)
        return whole[: max(0, round((until - self.start) * RATE))]

    def timed(self) -> Iterator[tuple[float, _Chunk]]:
        """Each chunk with the time at which it begins."""
        time = self.start
        for chunk in self.chunks:
            yield time, chunk
            time += chunk.seconds

    def speech_seconds(self, until: float) -> float:
        return sum(chunk.seconds for time, chunk in self.timed() if time < until and chunk.voiced >= 0.5)

    def quiet_near(self, time: float, within: float) -> float:
        """The middle of the quietest chunk at most `within` seconds from `time`; of equal ones the nearest."""
        middles = ((begin + chunk.seconds / 2, chunk.level) for begin, chunk in self.timed())
        near = [(level, abs(middle - time), middle) for middle, level in middles if abs(middle - time) <= within]
        return min(near)[2] if near else time

    def drop_before(self, time: float) -> None:
        """Forget the audio before `time`, at the boundary of a sample."""
        excess = round((time - self.start) * RATE)
        while self.chunks and excess >= len(self.chunks[0].pcm):
            dropped = len(self.chunks.pop(0).pcm)
            excess -= dropped
            self._shift(dropped)
        if self.chunks and excess > 0:
            self.chunks[0] = replace(self.chunks[0], pcm=self.chunks[0].pcm[excess:])
            self._shift(excess)

    def _shift(self, samples: int) -> None:
        self.start += samples / RATE
        self.samples -= samples


class IncrementalTranscript:
    """One utterance: its audio, what is committed of its text, and the latest hypothesis for the rest.

    At most one partial and one final decode (at a dip, or asked for) are under way at a time.
    """

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
        self._partial: DecodeJob | None = None
        self._final: DecodeJob | None = None
        self._whole: tuple[DecodeJob, Transcript] | None = None
        """The last final decode that came back."""
        self._next_partial = start + self._policy.first_after
        self._next_early = start + self._policy.early_after
        self._dips = DipDetector()
        self._dipped = False
        self._loud_until = start
        self._last_speech = start
        self._paused: float | None = None
        """Since when the caller has been silent, once a final transcript was asked for."""
        self._settling: float | None = None
        """The middle of a pause that is over: the final decode under way is committed up to there."""
        self.language = ""

    def push(self, pcm: Pcm, probability: float) -> None:
        """Append audio (float32 at 16 kHz) with the VAD's probability for it."""
        level = float(np.sqrt(np.mean(np.square(pcm)))) if pcm.size else 0.0
        self._stretch.push(_Chunk(pcm, probability, level))
        self._dipped = self._dips.push(level)
        if not self._dips.quiet:
            self._loud_until = self._stretch.end
        if self._stretch.seconds > 4 * self._policy.longest:
            self._stretch.drop_before(self._stretch.end - self._policy.longest)

    def spoke_until(self, time: float) -> None:
        """The VAD's last speech so far: a final job reaches a little past it."""
        self._last_speech = max(self._last_speech, time)

    def heard(self, *, final: bool = False) -> Heard:
        """The utterance so far."""
        settled = _join(self._segments).rstrip(_ENDS)
        return Heard(_join([*self._segments, self._hypothesis]), len(settled), final)

    @property
    def settled(self) -> bool:
        """Whether a final decode of everything that was said is back."""
        return self._whole is not None and self._covers(self._whole[0])

    def partial_job(self, *, busy: bool = False) -> DecodeJob | None:
        """The next decode worth doing while speech goes on; None while one is pending or too little is new.

        More must be new while the recogniser is `busy` with others: nobody waits for a partial.
        """
        length = self._stretch.seconds
        if self._partial is not None or (self._final is not None and length < self._policy.agree_from):
            return None
        if length >= self._policy.longest:
            return self._job(self._quietest(), final=True, cut=True) if self._final is None else None
        if self._stretch.end < self._next_partial + (self._policy.spared if busy else 0.0):
            return None
        return self._job(self._stretch.end, final=False, want_words=length >= self._policy.agree_from)

    def early_job(self) -> DecodeJob | None:
        """At a dip: a decode that is the final one if nothing but quiet follows."""
        length = self._stretch.seconds
        due = self._dipped and self._stretch.end >= self._next_early
        if not due or self._settling is not None or length >= self._policy.longest:
            return None
        self._next_early = self._stretch.end + self._policy.early_after
        return self._job(self._stretch.end, final=True, early=True)

    def final_job(self) -> DecodeJob | None:
        """Everything not yet committed, to a little past the last speech; None if that decode is under way or back.

        Of more than `longest` seconds only the first part, its job marked `cut`: ask again behind it.
        """
        self._paused = self._last_speech
        if self.settled or (self._final is not None and self._covers(self._final)):
            return None
        end = min(self._stretch.end, self._last_speech + 0.25)
        if end - self._stretch.start > self._policy.longest:
            return self._job(self._quietest(), final=True, cut=True)
        return self._job(end, final=True)

    def complete(self, job: DecodeJob, transcript: Transcript | None) -> bool:
        """Take a job's transcript (None: it failed or was dropped). True if it was the latest asked for."""
        pending = self._final if job.final else self._partial
        if pending is None or job.id != pending.id:
            return False
        if job.final:
            self._final = None
        else:
            self._partial = None
        if not job.early or job.end - job.start < self._policy.agree_from:
            self._next_partial = self._stretch.end + self._policy.interval
        if job.start != self._stretch.start or transcript is None:
            return job.start == self._stretch.start
        transcript = self._without_echo(transcript)
        self.language = transcript.language
        if job.cut:
            self._commit(transcript.text, job.end)
        elif job.final and self._settling is not None:
            self._commit(transcript.text, self._settling)
        elif job.final:
            self._hypothesis, self._whole = transcript.text, (job, transcript)
        elif self._paused is None and not self.settled:
            self._accept_partial(transcript, job)
        return True

    def resumed(self, at: float) -> None:
        """Speech goes on at `at` after a pause: what was said before it is settled, if the pause was real."""
        paused, self._paused = self._paused, None
        whole, self._whole = self._whole, None
        job = self._final or (whole[0] if whole else None)
        self._next_partial = min(self._next_partial, self._stretch.end + self._policy.first_after)
        if paused is None or job is None or not self._worth_settling(job, paused, at):
            self._final = None
        elif self._final is not None:
            self._settling = (paused + at) / 2
        elif whole is not None:
            self._commit(whole[1].text, (paused + at) / 2)

    def _worth_settling(self, job: DecodeJob, paused: float, at: float) -> bool:
        heard_all = self._to_its_end(job) and paused - self._policy.lag <= job.end <= at
        return heard_all and at - paused >= self._policy.pause and job.end - job.start >= self._policy.settle

    def _covers(self, job: DecodeJob) -> bool:
        """Whether nothing was said that the job does not hold."""
        return self._to_its_end(job) and job.end >= max(self._loud_until, self._last_speech - self._policy.lag) - 1e-6

    def _to_its_end(self, job: DecodeJob) -> bool:
        """Whether the job holds what is not committed from its beginning on, and was not cut short."""
        return job.start == self._stretch.start and not job.cut

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
            between = job.start + (words[cut - 1].end + words[cut].start) / 2
            middle = self._stretch.quiet_near(between, self._policy.seam) - job.start
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
        self._hypothesis, self._words, self._echo = "", (), ""
        self._whole, self._settling = None, None
        self._stretch.drop_before(until)

    def _job(
        self, end: float, *, final: bool, want_words: bool = False, cut: bool = False, early: bool = False
    ) -> DecodeJob:
        start = self._stretch.start
        job = DecodeJob(
            id=next(self._ids),
            pcm=self._stretch.audio(end),
            start=start,
            end=end,
            speech_seconds=self._stretch.speech_seconds(end),
            final=final,
            want_words=want_words,
            cut=cut,
            early=early,
        )
        if final:
            self._final, self._settling = job, None
        else:
            self._partial = job
        return job

    def _quietest(self) -> float:
        """The end of the least speech-like 100 ms in the second half of the `longest` seconds that a job may have."""
        half = self._stretch.start + self._policy.longest / 2
        last = self._stretch.start + self._policy.longest - 1.0
        best, lowest = last, float("inf")
        recent: deque[float] = deque(maxlen=5)
        for begin, chunk in self._stretch.timed():
            recent.append(chunk.voiced)
            time = begin + chunk.seconds
            if half <= time <= last and sum(recent) < lowest:
                best, lowest = time - 0.05, sum(recent)
        return best


def _join(texts: list[str]) -> str:
    """Stretches as one text: a space between them, except where Chinese, Japanese or Thai meets itself.

    Whisper ends a stretch that was cut at a pause like a sentence; where the next one goes on in
    lower case, it was none.
    """
    joined = ""
    for text in (t.strip() for t in texts):
        if not text:
            continue
        if text[0].islower():
            joined = joined.rstrip(_ENDS)
        spaceless = joined and ord(joined[-1]) >= 0x2E80 and ord(text[0]) >= 0x2E80
        joined += text if not joined or spaceless else " " + text
    return joined
