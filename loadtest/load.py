"""So many calls at once, held for a while: what all callers saw, and whether the tester itself kept up."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.browser import Browser
from loadtest.dialogue import CallResult, Turn, call
from loadtest.line import Line, Pcm
from loadtest.statistics import UNANSWERED, Estimate, estimate, percentile
from loadtest.telephone import Telephone
from loadtest.turns import CUT

PROTOCOLS: dict[str, type[Line]] = {"twilio": Telephone, "realtime": Browser}
TESTER_LATE = 0.02
"""A tester whose frames are later than this, one in a hundred, is the bottleneck itself."""


@dataclass(frozen=True)
class Load:
    """The result of one step."""

    calls: int
    results: tuple[CallResult, ...]

    @property
    def turns(self) -> list[Turn]:
        """All turns of all calls."""
        return [turn for result in self.results for turn in result.turns]

    def latency(self, share: float) -> Estimate:
        """A percentile of voice-to-voice latency (seconds), with bounds by call."""
        return estimate([[turn.latency for turn in result.turns] for result in self.results], share)

    @property
    def unanswered(self) -> int:
        """Turns without an answer."""
        return sum(turn.latency == UNANSWERED for turn in self.turns)

    @property
    def cut_ins(self) -> int:
        """Turns in which the agent spoke over the caller."""
        return sum(turn.cut_in > CUT for turn in self.turns)

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
        return len(self.refused) == len(self.results) and not any("HTTP 503" in why for why in self.refused)

    @property
    def gaps(self) -> int:
        """Breaks of agent audio inside a reply."""
        return sum(len(result.gaps) for result in self.results)

    @property
    def tester_late(self) -> float:
        """Seconds of which 99% of the tester's own frames were less late."""
        return percentile([late for result in self.results for late in result.late], 0.99)

    @property
    def counts(self) -> bool:
        """Whether the tester kept up: else the figures are its own."""
        return not self.tester_late > TESTER_LATE

    def holds(self, target: float) -> bool:
        """Whether every call was taken and answered in time: p95 within `target` seconds, nothing unanswered."""
        whole = not (self.refused or self.broken or self.unanswered) and bool(self.turns)
        return whole and self.counts and percentile([turn.latency for turn in self.turns], 0.95) <= target


async def hold(
    server: str,
    protocol: str,
    said: Sequence[tuple[str, Pcm]],
    *,
    calls: int,
    seconds: float,
    stagger: float = 1.0,
    seed: int = 0,
) -> Load:
    """Hold `calls` calls for `seconds`, each starting `stagger` seconds after the one before."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds + stagger * (calls - 1)

    async def one(number: int) -> CallResult:
        await asyncio.sleep(stagger * number)
        return await call(PROTOCOLS[protocol](server), said, until=until, seed=seed * 1000 + number)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(calls)]
    return Load(calls, tuple(task.result() for task in tasks))
