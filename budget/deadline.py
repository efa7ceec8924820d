"""A turn's time budget: the stages it passes, when each began and ended, and what is left.

All times are seconds on the event loop's monotonic clock, handed in by the caller.
"""

from dataclasses import dataclass, replace
from enum import IntEnum


class Stage(IntEnum):
    """The stages between the caller's last sound and the agent's first, in order."""

    ENDPOINT = 0
    ASR = 1
    LLM = 2
    TTS = 3
    PLAYOUT = 4


SHARES: dict[Stage, float] = {
    Stage.ENDPOINT: 0.200,
    Stage.ASR: 0.100,
    Stage.LLM: 0.150,
    Stage.TTS: 0.100,
    Stage.PLAYOUT: 0.050,
}
"""Seconds each stage may take before it is remarkable: an alarm line, not a schedule."""


@dataclass(frozen=True)
class LatencyBudget:
    """The promise of one turn: the agent is heard `target` seconds after the last speech sample."""

    speech_end: float
    target: float = 0.8

    @property
    def deadline(self) -> float:
        """The moment the first agent sample is due."""
        return self.speech_end + self.target

    def remaining(self, now: float) -> float:
        """Seconds left; negative once the promise is broken."""
        return self.deadline - now

    def share(self, stage: Stage) -> float:
        """Seconds this stage may take before the others run short."""
        return SHARES[stage]


@dataclass(frozen=True)
class TurnTimings:
    """The stamps of one turn, filled in as they happen (loop seconds; None = not reached).

    `speech_end` is the last speech sample by the VAD. Derived figures are in milliseconds
    and count from it, except those of a stage, which count from that stage's own start.
    """

    speech_end: float
    endpoint: float | None = None
    asr_started: float | None = None
    asr_final: float | None = None
    llm_started: float | None = None
    llm_first_token: float | None = None
    tts_started: float | None = None
    tts_first_audio: float | None = None
    first_sent: float | None = None

    def stamp(self, **at: float) -> "TurnTimings":
        """A copy with the given stamps; a stamp once set is kept, so that retries don't rewrite it."""
        fresh = {name: value for name, value in at.items() if getattr(self, name) is None}
        return replace(self, **fresh)

    def slack(self, first: float, target: float) -> float:
        """What was left of `target` (seconds) when the first audio went out at `first`; negative: late.

        A wait that the rule of turns chose because the caller might go on is not the machine's doing: had the
        end been sure, it would have been answered by so much sooner.
        """
        chosen = 0.0 if self.endpoint is None else self.endpoint - self.speech_end - SHARES[Stage.ENDPOINT]
        return target - (first - self.speech_end - max(0.0, chosen))

    def milliseconds(self) -> dict[str, float | None]:
        """The figures that log, histogram, console and load report share, in milliseconds."""

        def span(start: float | None, end: float | None) -> float | None:
            return None if start is None or end is None else round((end - start) * 1000, 1)

        return {
            "endpoint_ms": span(self.speech_end, self.endpoint),
            "asr_final_ms": span(self.asr_started, self.asr_final),
            "llm_first_token_ms": span(self.llm_started, self.llm_first_token),
            "tts_first_audio_ms": span(self.tts_started, self.tts_first_audio),
            "voice_to_voice_ms": span(self.speech_end, self.first_sent),
        }

    def bars(self) -> list[dict[str, float | str]]:
        """Each stage as start and end in milliseconds after the last speech sample, for the console's bar."""
        spans = {
            "endpoint": (self.speech_end, self.endpoint),
            "asr": (self.asr_started, self.asr_final),
            "llm": (self.llm_started, self.llm_first_token),
            "tts": (self.tts_started, self.tts_first_audio),
        }
        return [
            {
                "stage": name,
                "start_ms": round((start - self.speech_end) * 1000, 1),
                "end_ms": round((end - self.speech_end) * 1000, 1),
            }
            for name, (start, end) in spans.items()
            if start is not None and end is not None
        ]
