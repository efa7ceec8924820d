"""The caller's present pause: gathers the evidence that the turn is over, and asks the rule.

The sound is judged off the loop as soon as the voice activity detector is sure of the silence; what
the words say comes with the transcript and from the language model. Used only by `Hearing`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import numpy as np
import structlog

from budget.scheduler import QueueFull
from transport.frame import FRAME_SECONDS, Pcm
from vad.turn_end import EndpointRule, Evidence, Habit
from vad.wording import wording

log = structlog.get_logger(__name__)

SoundJudge = Callable[[Pcm], Awaitable[float]]
"""Judges off the loop: the turn's last seconds at 16 kHz to the probability that it is complete."""

_HEARD = 8.0
"""Seconds of the turn that are judged."""
_HESITATION = 0.3
"""A pause of so many seconds at a seeming end, after which the caller goes on, tells how this caller speaks."""


@dataclass(frozen=True)
class SoundJudged:
    """The pause after `speech_end` (media time) sounds complete with this probability; None if that failed."""

    speech_end: float
    probability: float | None


class Pause:
    """Owned by one call's `Hearing`."""

    def __init__(
        self,
        rule: EndpointRule,
        judge: SoundJudge | None,
        *,
        tasks: asyncio.TaskGroup,
        post: Callable[[SoundJudged], None],
    ) -> None:
        self.rule = rule
        self.habit = Habit()
        self.evidence = Evidence()
        self._judge = judge
        self._tasks, self._post = tasks, post
        self._sound: deque[Pcm] = deque(maxlen=round(_HEARD / FRAME_SECONDS))
        self._since: float | None = None
        """Media time of the last speech before this pause."""

    def hear(self, pcm: Pcm) -> None:
        """Take a frame of the turn, speech or not."""
        self._sound.append(pcm)

    def turn_began(self, frames: list[Pcm]) -> None:
        """A turn begins with these frames: what came before is none of it."""
        self._sound.clear()
        self._sound.extend(frames)
        self._since = None

    def began(self, speech_end: float) -> None:
        """The caller has been silent since `speech_end`: judge the sound."""
        self._since, self.evidence = speech_end, Evidence()
        if self._judge is not None and self.rule.by_meaning:
            self._tasks.create_task(self._ask(self._judge, speech_end, np.concatenate(self._sound)))

    def ended(self, at: float) -> None:
        """The caller went on in the same turn at `at`."""
        if self._since is not None and at - self._since >= _HESITATION and self.rule.seems_over(self.evidence):
            self.habit = self.habit.hesitated()
        self._since = None

    def turn_ended(self) -> None:
        """The turn was taken to be over."""
        self.habit = self.habit.finished()

    def sounds(self, judged: SoundJudged) -> None:
        """Take the judgement of the sound, if it is of this pause."""
        if judged.speech_end == self._since:
            self.evidence = replace(self.evidence, sound=judged.probability)

    def says(self, text: str) -> None:
        """Take the words of the turn; more may be known of them later."""
        self.evidence = replace(self.evidence, wording=wording(text), judged=False)

    def means(self, sentence: float | None) -> None:
        """Take the probability that the words are a whole sentence (None: nobody can tell): all is known."""
        self.evidence = replace(self.evidence, sentence=sentence, judged=True)

    def over(self, last_speech: float, now: float) -> bool:
        """Whether the turn is over by now (media time)."""
        endpoint = self.rule.decide(last_speech, now, self.evidence, self.habit)
        if endpoint is not None:
            log.debug(
                "turn over",
                waited=round(now - last_speech, 3),
                score=endpoint.score,
                odds=round(self.habit.odds, 2),
                **vars(self.evidence),
            )
        return endpoint is not None

    def likely_over(self, last_speech: float, now: float, head_start: float) -> bool:
        """Whether it is time to begin an answer, should the caller not go on: `head_start` before the turn's end."""
        wait = self.rule.wait_for(self.evidence, self.habit)
        return now - last_speech >= wait - head_start

    async def _ask(self, judge: SoundJudge, speech_end: float, pcm: Pcm) -> None:
        try:
            self._post(SoundJudged(speech_end, await judge(pcm)))
        except (QueueFull, RuntimeError) as error:
            log.warning("turn end not judged by its sound", error=str(error))
            self._post(SoundJudged(speech_end, None))
