"""The result of one step: what all callers saw, and whether the tester itself kept up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loadtest.dialogue import CallResult, Turn
from loadtest.observed import Observed
from loadtest.statistics import UNANSWERED, Estimate, confidence, estimate, percentile
from loadtest.turns import CUT
from loadtest.wrong import is_wrong

TESTER_LATE = 0.02
"""A tester whose frames are later than this, one in a hundred, is the bottleneck itself."""


@dataclass(frozen=True)
class Target:
    """What must hold: this share of the turns answered within so many seconds."""

    share: float = 0.95
    seconds: float = 0.8

    def __str__(self) -> str:
        return f"p{self.share * 100:g} <= {self.seconds * 1000:.0f} ms"


@dataclass(frozen=True)
class Calls:
    """The calls of a step, what was said in them apart."""

    calls: int
    results: tuple[CallResult, ...]

    @property
    def refused(self) -> list[str]:
        """Why calls were not taken."""
        return [result.refused for result in self.results if result.refused]

    @property
    def broken(self) -> list[str]:
        """How calls ended before their time."""
        return [result.broken for result in self.results if result.broken]

    @property
    def unreachable(self) -> bool:
        """Whether nobody got through, and not because the server said that it is full."""
        return bool(self.results) and all(result.refused and not result.full for result in self.results)

    @property
    def gaps(self) -> int:
        """Breaks of agent audio inside a reply."""
        return sum(len(result.gaps) for result in self.results)

    @property
    def lost(self) -> int:
        """Frames of agent audio that were lost or came too late."""
        return sum(result.lost for result in self.results)

    @property
    def stops(self) -> list[float]:
        """Seconds for which the agent spoke on after each interruption."""
        return [stop for result in self.results for stop in result.stops]

    @property
    def set_up(self) -> float:
        """Median seconds from the first packet of a call until it could be spoken in."""
        return percentile([result.set_up for result in self.results if result.set_up is not None], 0.5)

    @property
    def tester_late(self) -> float:
        """Seconds of which 99% of the tester's own frames were less late."""
        return percentile([late for result in self.results for late in result.late], 0.99)


@dataclass(frozen=True)
class Load(Calls):
    """One step. Turns begun before `settled` (seconds of the step), when not all calls were up, don't count."""

    settled: float = 0.0
    seconds: float = 0.0
    tester_cpu: float = 0.0
    """Seconds of processor time that the tester used."""
    observed: Observed = field(default_factory=Observed)

    def turns_by_call(self) -> list[list[Turn]]:
        """The turns that count, call by call."""
        return [[turn for turn in result.turns if turn.at >= self.settled] for result in self.results]

    @property
    def turns(self) -> list[Turn]:
        """The turns of all calls that count."""
        return [turn for turns in self.turns_by_call() for turn in turns]

    def latencies(self) -> list[list[float]]:
        """Voice-to-voice latency (seconds), call by call."""
        return [[turn.latency for turn in turns] for turns in self.turns_by_call()]

    def latency(self, share: float) -> Estimate:
        """A percentile of voice-to-voice latency (seconds), with bounds by call."""
        return estimate(self.latencies(), share)

    def confidence(self, target: Target) -> float:
        """How sure it is, from 0 to 1, that the target holds for calls like these."""
        return confidence(self.latencies(), target.share, target.seconds)

    @property
    def unanswered(self) -> int:
        """Turns without an answer."""
        return sum(turn.latency == UNANSWERED for turn in self.turns)

    @property
    def cut_ins(self) -> int:
        """Turns in which the agent spoke over the caller."""
        return sum(turn.cut_in > CUT for turn in self.turns)

    @property
    def wrong(self) -> int:
        """Turns whose answer was somebody else's, or not what it must be."""
        turns = self.turns
        texts = {turn.text for turn in turns}
        return sum(is_wrong(turn, texts) for turn in turns)

    @property
    def tester_share(self) -> float:
        """Share of a core that the tester used for each call."""
        held = sum(result.ended - result.began for result in self.results if not result.refused)
        return self.tester_cpu / held if held else math.nan

    @property
    def counts(self) -> bool:
        """Whether the tester kept up: else the figures are its own."""
        return not self.tester_late > TESTER_LATE

    def holds(self, target: Target) -> bool:
        """Whether every call was taken and kept, no answer wrong, and the target met; unanswered is infinitely late."""
        whole = not (self.refused or self.broken or self.wrong) and bool(self.turns)
        measured = percentile([turn.latency for turn in self.turns], target.share)
        return whole and self.counts and measured <= target.seconds


def pooled(loads: Sequence[Load]) -> Load:
    """Steps with the same number of calls as one: percentiles of twice the turns are less a matter of luck."""
    results = tuple(result for load in loads for result in load.results)
    cpu, seconds = sum(load.tester_cpu for load in loads), sum(load.seconds for load in loads)
    return Load(loads[0].calls, results, loads[0].settled, seconds, cpu, loads[-1].observed)


def plain(load: Load) -> dict[str, Any]:
    """A step as JSON; times in milliseconds; what did not happen, or has no value, is null."""
    return {
        "calls": load.calls,
        "counts": load.counts,
        "settled_s": round(load.settled, 1),
        "seconds": round(load.seconds, 1),
        "p50_ms": _estimate(load.latency(0.5)),
        "p95_ms": _estimate(load.latency(0.95)),
        "unanswered": load.unanswered,
        "cut_ins": load.cut_ins,
        "wrong": load.wrong,
        "gaps": load.gaps,
        "lost_frames": load.lost,
        "stops_ms": [_milliseconds(stop) for stop in load.stops],
        "set_up_ms": _milliseconds(load.set_up),
        "tester_late_ms": _milliseconds(load.tester_late),
        "tester_share_of_a_core": None if math.isnan(load.tester_share) else round(load.tester_share, 4),
        "server": load.observed.plain(),
        "results": [_call(result) for result in load.results],
    }


def _call(result: CallResult) -> dict[str, Any]:
    return {
        "number": result.number,
        "script": result.script,
        "began_s": round(result.began, 2),
        "ended_s": round(result.ended, 2),
        "refused": result.refused,
        "broken": result.broken,
        "turns": [_turn(turn) for turn in result.turns],
    }


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "clip": turn.clip,
        "at_s": round(turn.at, 2),
        "spoken_s": round(turn.spoken, 2),
        "voice_to_voice_ms": _milliseconds(turn.latency),
        "cut_in_ms": _milliseconds(turn.cut_in),
        "understood": turn.understood,
        "answered": turn.answered,
        "stages": list(turn.stages),
    }


def _estimate(found: Estimate) -> list[float | None]:
    return [_milliseconds(value) for value in (found.value, found.low, found.high)]


def _milliseconds(seconds: float) -> float | None:
    return round(seconds * 1000, 1) if math.isfinite(seconds) else None
