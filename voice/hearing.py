"""The caller's side of a call: audio in, turn-taking events and the words of the turn out.

Holds the pre-roll, so that first words aren't cut, the voice activity, the turn's incremental
transcript and what is known of the present pause. Decodes run as tasks of the call's group; their
results come back through the call's one loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from asr.incremental import DecodeJob, DecodePolicy, IncrementalTranscript
from asr.recognizer import DecodeRequest, Recognizer
from asr.transcript import Heard, Transcript
from budget.errors import EngineError
from budget.governor import Effort
from budget.scheduler import QueueFull
from budget.work import Urgency
from transport.frame import FRAME_SECONDS, AudioFrame
from vad.speech import SpeechDetector, SpeechEvent, SpeechStarted, SpeechTracker
from vad.turn_end import EndpointRule
from voice.pause import Pause, SoundJudge, SoundJudged
from voice.turn_taking import CallerFellSilent, CallerInsists, CallerSpoke, Event, TurnOver

log = structlog.get_logger(__name__)

PREROLL = 0.3
"""Seconds of audio before the VAD's start that belong to the turn: soft consonants, a first "h"."""
_KEPT = 0.8
_STALL = 0.5
"""Seconds without a frame after which the audio counts as stopped, not as late."""
INSISTS = 0.9
"""Seconds of speech that are more than a listener's "mm-hm" or "okay, right"."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """A decode job came back; `transcript` is None when it was dropped or failed (`error`)."""

    job: DecodeJob
    transcript: Transcript | None
    error: EngineError | None = None


class Hearing:
    """Listens to one caller. Not thread-safe: owned by the call's loop."""

    def __init__(
        self,
        detector: SpeechDetector,
        recognizer: Recognizer,
        *,
        judge: SoundJudge | None,
        rule: EndpointRule,
        language: str,
        tasks: asyncio.TaskGroup,
        post: Callable[[Decoded | SoundJudged], None],
        effort: Callable[[], Effort] = Effort,
    ) -> None:
        self.pause = Pause(rule, judge, tasks=tasks, post=post)
        self.language = language
        self.automatic = True
        """Whether voice activity decides about turns; otherwise the client commits them."""
        self.now = 0.0
        """Media time: the end of the last frame."""
        self._tracker = SpeechTracker(detector)
        self._recognizer = recognizer
        self._tasks, self._post, self._effort = tasks, post, effort
        self._recent: deque[tuple[AudioFrame, float]] = deque(maxlen=round(_KEPT / FRAME_SECONDS))
        self._turn: IncrementalTranscript | None = None
        self._over = True
        self._spoke_at: float | None = None
        """Since when the caller speaks, until that has lasted for `INSISTS`."""
        self._decoding = 0
        """Decodes of this call under way."""
        self._awaited: float | None = None
        """The end of the speech whose final transcript was asked for and is not back."""
        self.asr_started = 0.0
        """Loop time at which the last final decode was asked for: at a dip it is before the VAD's silence."""
        self.began = 0.0
        """Media time since which a client-committed turn collects."""

    @property
    def last_speech(self) -> float:
        """Media time of the last speech."""
        return self._tracker.last_speech

    def push(self, frame: AudioFrame) -> list[Event]:
        """Take a frame; return what it means for the conversation."""
        self.now = frame.time + FRAME_SECONDS
        activity = self._tracker.push(frame.pcm)
        self._recent.append((frame, self._tracker.probability))
        self.pause.hear(frame.pcm)
        if self._turn is None and not self.automatic:
            self.began, self._turn = frame.time, IncrementalTranscript(frame.time, self._policy())
        if self._turn is not None:
            self._turn.push(frame.pcm, self._tracker.probability)
            if self._tracker.speaking:
                self._turn.spoke_until(self._tracker.last_speech)
        return self._events(activity) if self.automatic else []

    def _events(self, activity: list[SpeechEvent]) -> list[Event]:
        events: list[Event] = []
        for event in activity:
            if isinstance(event, SpeechStarted):
                self._over, self._spoke_at = False, event.at
                events.append(CallerSpoke(event.at))
            else:
                events.append(self._fell_silent(event.at))
        if self._spoke_at is not None and self.now - self._spoke_at >= INSISTS:
            self._spoke_at = None
            events.append(CallerInsists())
        return [*events, *self._turn_over(self.now)]

    def _fell_silent(self, speech_end: float) -> CallerFellSilent:
        self._spoke_at = None
        self.pause.began(speech_end)
        return CallerFellSilent(speech_end)

    def _turn_over(self, now: float) -> list[Event]:
        """The turn's end, once, if it is over by media time `now`."""
        waiting = not self._over and not self._tracker.speaking
        if not waiting or not self.pause.over(self._tracker.last_speech, now):
            return []
        self._over = True
        self.pause.turn_ended()
        return [TurnOver()]

    def stalled(self, seconds: float) -> list[Event]:
        """No audio has come for so long: a client that stops sending is silent too."""
        if not self.automatic or seconds < _STALL:
            return []
        if not self._tracker.speaking:
            return self._turn_over(self.now + seconds)
        self._tracker.cut_off()
        return [self._fell_silent(self._tracker.last_speech)]

    def begin(self, at: float) -> None:
        """A turn begins at media time `at`: open its transcript with the pre-roll.

        Where the client commits turns, the transcript has been collecting since its first frame.
        """
        if not self.automatic and self._turn is not None:
            return
        kept = [(frame, p) for frame, p in self._recent if frame.time >= at - PREROLL]
        start = kept[0][0].time if kept else self.now
        self._turn = IncrementalTranscript(start, self._policy())
        for frame, probability in kept:
            self._turn.push(frame.pcm, probability)
        self._turn.spoke_until(self._tracker.last_speech)
        self.pause.turn_began([frame.pcm for frame, _ in kept])

    def resume(self, at: float) -> None:
        """The caller goes on in the same turn."""
        self.pause.ended(at)
        if self._turn is None:
            self.begin(at)
        else:
            self._awaited = None
            self._turn.resumed(at)

    def close(self) -> None:
        """The turn is finished with: forget its audio."""
        self._turn = None

    def heard(self, *, final: bool = False) -> Heard:
        """The turn's words so far."""
        return self._turn.heard(final=final) if self._turn is not None else Heard("", 0, final)

    def detected_language(self) -> str:
        """The language that the recogniser found, empty before the first result."""
        return self._turn.language if self._turn is not None else ""

    def partial(self) -> None:
        """While the caller speaks: start the next decode if one is due, at a dip or after a while."""
        if self._turn is None or not self._tracker.speaking:
            return
        spare = self._effort().speculate and self._recognizer.spare(self._decoding)
        early = self._turn.early_job() if spare else None
        if early is not None:
            self._start(early, Urgency.PARTIAL)
            return
        if self._tracker.probability >= 0.5 and (job := self._turn.partial_job(busy=not spare)) is not None:
            self._start(job, Urgency.CONTINUATION if job.final else Urgency.PARTIAL)

    def recognise(self, speech_end: float) -> bool:
        """Ask for the final transcript of the turn up to `speech_end`; True if it is there already."""
        if self._turn is None:
            return False
        self._turn.spoke_until(speech_end)
        job = self._turn.final_job()
        if job is not None:
            self._start(job, Urgency.FIRST_AUDIO)
        known = self._turn.settled
        self._awaited = None if known else speech_end
        return known

    def complete(self, decoded: Decoded) -> bool:
        """Take a result back; True if it was the turn's latest job and no part of the turn is left to decode."""
        if self._turn is None or not self._turn.complete(decoded.job, decoded.transcript):
            return False
        awaited = self._awaited
        if awaited is None or not decoded.job.final:
            return True
        self._awaited = None
        more = decoded.job.cut and decoded.error is None
        again = decoded.job.early and decoded.transcript is None
        return not (more or again) or self.recognise(awaited)

    def _policy(self) -> DecodePolicy:
        """When a turn that begins now is decoded."""
        usual = DecodePolicy()
        return replace(usual, interval=usual.interval * self._effort().partial_interval)

    def _start(self, job: DecodeJob, urgency: Urgency) -> None:
        if job.final:
            self.asr_started = asyncio.get_running_loop().time()
        self._tasks.create_task(self._decode(job, urgency))

    async def _decode(self, job: DecodeJob, urgency: Urgency) -> None:
        smaller = self._effort().smaller
        request = DecodeRequest(job.pcm, self.language, job.speech_seconds, job.final, job.want_words, smaller)
        self._decoding += 1
        try:
            self._post(Decoded(job, await self._recognizer.decode(request, urgency)))
        except QueueFull:
            self._post(Decoded(job, None))
        except EngineError as error:
            log.warning("recognition failed", error=str(error))
            self._post(Decoded(job, None, error))
        finally:
            self._decoding -= 1
