"""One caller: calls, and does what its script says until it is time to take leave."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from loadtest.latency import answer
from loadtest.line import Broken, Line, Pcm, Refused
from loadtest.recordings import Clip
from loadtest.script import Script
from loadtest.statistics import UNANSWERED

_BARGE_IN_SEEN = 2.0
"""Seconds after the beginning of an interruption in which agent audio still counts as the interrupted reply."""


@dataclass(frozen=True)
class Turn:
    """What was said at `at` (seconds of the step), and how late its answer was; infinitely: none came.

    `spoken`: seconds that it took. `latency`: seconds from its last sample to the first audible one of the
    answer. `cut_in`: seconds of the agent's voice while the caller was still speaking. Where the protocol
    tells: `understood` by the server, `answered` by it, and the `stages` of its own record.
    """

    clip: str
    text: str
    at: float
    spoken: float
    latency: float
    cut_in: float
    expect: tuple[str, ...] = ()
    understood: str = ""
    answered: str = ""
    stages: tuple[dict[str, Any], ...] = ()


@dataclass
class CallResult:
    """What one caller saw; times in seconds of the step."""

    number: int
    script: str
    began: float
    ended: float = 0.0
    set_up: float | None = None
    turns: list[Turn] = field(default_factory=list)
    refused: str = ""
    """Why the call was not taken; empty if it was."""
    full: bool = False
    """Whether it was not taken because the server, or a quota, had no room (HTTP 503, 429)."""
    broken: str = ""
    """How the call ended before its time; empty if it did not."""
    gaps: list[float] = field(default_factory=list)
    lost: int = 0
    stops: list[float] = field(default_factory=list)
    """Seconds for which the agent spoke on after it was interrupted."""
    late: list[float] = field(default_factory=list)


class Deck:
    """What the callers of one script say: dealt from one shuffled pack, so that all of it is said equally often.

    Were each caller to draw for itself, a step of fifty turns would hold a difficult recording never or five times.
    """

    def __init__(self, said: Sequence[tuple[Clip, Pcm]], seed: int) -> None:
        self._said = said
        self._chance = np.random.default_rng(seed)
        self._order: list[int] = []

    def deal(self) -> tuple[Clip, Pcm]:
        """The next recording and its samples at the line's rate."""
        if not self._order:
            self._order = [int(i) for i in self._chance.permutation(len(self._said))]
        return self._said[self._order.pop()]


class Caller:
    """Follows a script on a line; what it says comes from the `deck`."""

    def __init__(
        self,
        line: Line,
        script: Script,
        deck: Deck,
        *,
        seed: int,
        number: int = 0,
        step_began: float = 0.0,
        on_turn: Callable[[Turn], None] = lambda turn: None,
    ) -> None:
        self._line, self._script, self._deck = line, script, deck
        self._chance = np.random.default_rng(seed)
        self._step_began, self._on_turn = step_began, on_turn
        self._loop = asyncio.get_running_loop()
        self._spoken = 0.0
        self._told_before = (0, 0, 0)
        """Texts understood, replies and records that the line had before the last turn."""
        self.result = CallResult(number, script.name, self._now())

    def _now(self) -> float:
        return self._loop.time() - self._step_began

    async def call(self, until: float) -> CallResult:
        """Talk until `until` (seconds of the step). A call that is refused or breaks is a result, not an error."""
        line, result = self._line, self.result
        try:
            async with line:
                result.set_up = line.set_up
                await self._talk(until)
        except Refused as error:
            result.refused, result.full = str(error), error.status in (429, 503)
        except Broken as error:
            result.broken = str(error)
        result.ended = self._now()
        result.gaps, result.lost, result.late = line.gaps, line.lost, line.late
        return result

    async def _talk(self, until: float) -> None:
        await self._line.hear_out(1.0)
        connected = self._now()
        interrupting = False
        while self._now() < until:
            if self._script.silent:
                await self._line.tick()
                continue
            clip, pcm = self._deck.deal()
            heard = await self._turn(clip, pcm, interrupting=interrupting)
            if heard and self._chance.random() < self._script.interrupts:
                await self._line.wait(float(self._chance.uniform(*self._script.interrupts_after)))
                interrupting = self._line.audible_until > self._loop.time()
            else:
                interrupting = not await self._heard_out()
            self._gather()
            while not interrupting and self._spoken > self._script.activity * (self._now() - connected):
                await self._line.tick()

    async def _turn(self, clip: Clip, pcm: Pcm, *, interrupting: bool) -> bool:
        """Say one recording and wait for the answer; returns whether one came."""
        line = self._line
        texts, replies, records = len(line.caller_said), len(line.agent_said), len(line.records)
        at, began = self._now(), self._loop.time()
        ended = await line.say(pcm)
        self._spoken += ended - began
        if interrupting:
            over = [sound for sound in line.sounds if began < sound < min(ended, began + _BARGE_IN_SEEN)]
            self.result.stops.append(max(over) - began if over else 0.0)
        cut_in = 0.0 if interrupting else 0.01 * sum(began < sound < ended for sound in line.sounds)
        heard = await answer(line, ended)
        turn = Turn(
            clip.name, clip.text, at, ended - began, UNANSWERED if heard is None else heard - ended, cut_in, clip.expect
        )
        self._on_turn(turn)
        self._told_before = (texts, replies, records)
        self.result.turns.append(turn)
        return heard is not None

    async def _heard_out(self) -> bool:
        """Hear the answer out, then be silent for a while; False if it went on for too long to be listened to."""
        try:
            async with asyncio.timeout(self._script.patience):
                await self._line.hear_out(float(self._chance.uniform(*self._script.think)))
        except TimeoutError:
            return False
        return True

    def _gather(self) -> None:
        """Add to the last turn what the server told of it: that comes while its answer sounds."""
        texts, replies, records = self._told_before
        line, told = self._line, self._line.records[records:]
        self.result.turns[-1] = replace(
            self.result.turns[-1],
            understood=" ".join(line.caller_said[texts:]),
            answered=" ".join(line.agent_said[replies:]),
            stages=tuple(told[-1].get("stages", ())) if told else (),
        )
