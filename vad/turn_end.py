"""When a turn is over: the endpoint and the rule that decides it.

Silence alone decides today. A model of the turn's end (does it sound complete?) has its place in
`TurnEndModel`: its probability shortens or lengthens the wait through `EndpointRule.wait_for`,
and nothing else in the service has to know.
"""

from dataclasses import dataclass
from typing import Protocol

from vad.speech import Pcm


@dataclass(frozen=True)
class Endpoint:
    """The end of a turn: last speech at `speech_end`, decided at `decided_at` (media seconds).

    `probability` that the turn was complete, where a model gave one.
    """

    speech_end: float
    decided_at: float
    probability: float | None = None


class TurnEndModel(Protocol):
    """Judges from the sound whether the caller is done."""

    def probability(self, pcm: Pcm) -> float:
        """Probability that the turn is complete; `pcm` is its last 8 s at most, 16 kHz."""
        ...


@dataclass(frozen=True)
class EndpointRule:
    """How long a silence must be (seconds) before the turn is over.

    `silence` without a model's word; with one, from `shortest` (surely complete) to `longest`
    (surely not).
    """

    silence: float = 0.5
    shortest: float = 0.2
    longest: float = 1.6

    def wait_for(self, probability: float | None) -> float:
        """Seconds of silence to wait for, given the probability that the turn is complete."""
        if probability is None:
            return self.silence
        return self.longest + (self.shortest - self.longest) * probability

    def decide(self, speech_end: float, now: float, probability: float | None = None) -> Endpoint | None:
        """The endpoint, once `now` (media time) is late enough after `speech_end`."""
        if now - speech_end < self.wait_for(probability) - 1e-9:
            return None
        return Endpoint(speech_end, now, probability)
