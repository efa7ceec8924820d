"""Step after step, with what happens shown in the terminal: the steps asked for, or the capacity search."""

import argparse
import asyncio
import math
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from loadtest.arrivals import STAGGER, Planned, poisson, ramp, together
from loadtest.crew import Aim, hold
from loadtest.dialogue import Turn
from loadtest.load import Load, Target, plain, pooled
from loadtest.observed import limit
from loadtest.recordings import chosen, spoken
from loadtest.script import Script, read
from loadtest.search import Search
from loadtest.statistics import percentile
from loadtest.turns import CUT

_ENOUGH = 420.0
"""Seconds of talk, of all calls together, in a step of the search: some 40 turns; of fewer p95 is the slowest."""


class Steps:
    """Runs what the command's options ask for and keeps what was measured.

    Raises `ScriptError`, `ValueError` or `OSError` for scripts and recordings that can't be used.
    """

    def __init__(self, options: argparse.Namespace, key: str) -> None:
        self._options = options
        self._aim = Aim(options.server, options.protocol, key, options.recordings, options.workers)
        self._scripts: list[Script] = [read(name) for name in options.script]
        recordings = spoken(options.recordings)
        for script in self._scripts:
            chosen(script, recordings)
        self._console = Console()
        self.loads: list[Load] = []
        self.capacity: int | None = None
        self._target: Target = options.slo

    async def run(self) -> None:
        """Warm up, then step after step."""
        if self._options.warm_up:
            warm = together(1, self._options.warm_up, self._scripts, self._options.seed)
            if (await self._step(warm, "warming up")).unreachable:
                return
        if self._options.find_capacity:
            await self._search()
        elif self._options.arrivals == "poisson":
            await self._measure(0)
        else:
            for calls in self._options.calls:
                if not await self._measure(calls):
                    return

    async def _search(self) -> None:
        search = Search(first=self._options.calls[0])
        while (calls := search.next()) is not None:
            if not await self._measure(calls) or not self.loads[-1].counts:
                return
            search.saw(calls, self._at(calls).holds(self._target))
        self.capacity = search.best
        self._console.print(self._verdict(), soft_wrap=True, highlight=False)

    async def _measure(self, calls: int) -> bool:
        """One step; False if there is nobody to call."""
        load = await self._step(self._plan(calls), f"{calls} call{'s' * (calls != 1)}" if calls else "calls by chance")
        self.loads.append(load)
        self._console.print(line(load, self._target), soft_wrap=True, highlight=False)
        return not load.unreachable

    def _plan(self, calls: int) -> list[Planned]:
        options, seed = self._options, self._options.seed + len(self.loads)
        if options.arrivals == "poisson":
            return poisson(options.rate / 60, options.call_seconds, options.seconds, self._scripts, seed)
        seconds = max(options.seconds, _ENOUGH / calls) if options.find_capacity else options.seconds
        arrive = ramp if options.arrivals == "ramp" else together
        return arrive(calls, seconds, self._scripts, seed)

    async def _step(self, plan: list[Planned], name: str) -> Load:
        settled = STAGGER * (len(plan) - 1) if self._options.arrivals == "together" else 0.0
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[seen]}"),
        )
        length = max((planned.end for planned in plan), default=0.0)
        turns: list[Turn] = []
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task(name, total=length, seen="")

            def on_turn(turn: Turn) -> None:
                turns.append(turn)
                bar.update(task, seen=_so_far(turns))

            async def tick() -> None:
                while True:
                    await asyncio.sleep(0.5)
                    bar.advance(task, 0.5)

            async with asyncio.TaskGroup() as group:
                ticking = group.create_task(tick())
                load = await hold(self._aim, plan, settled=settled, on_turn=on_turn)
                ticking.cancel()
        return load

    def _at(self, calls: int) -> Load:
        """All that was measured with so many calls."""
        return pooled([load for load in self.loads if load.calls == calls])

    def _verdict(self) -> str:
        """The capacity in words: how many, how sure, and what limits it."""
        best = self.capacity or 0
        text = f"carries {best} call{'s' * (best != 1)} at {self._target}"
        beyond = [load for load in self.loads if load.calls == best + 1]
        if best:
            text += f" (confidence {self._at(best).confidence(self._target):.0%})"
        if beyond and beyond[-1].refused:
            return f"{text}; the server takes no more: {beyond[-1].refused[0]} (for halfsecond see call.max_calls)"
        first = self.loads[0]
        grown = limit(first.observed, beyond[0].observed) if beyond else None
        if grown is not None:
            text += f"; limited by {grown[0]}: {grown[1] * 1000:+.0f} ms from {first.calls} to {best + 1} calls"
        return text

    def result(self) -> dict[str, Any]:
        """All that was measured, as JSON."""
        return {
            "server": self._aim.server,
            "protocol": self._aim.protocol,
            "scripts": [script.name for script in self._scripts],
            "arrivals": self._options.arrivals,
            "target": str(self._target),
            "target_ms": self._target.seconds * 1000,
            "capacity": self.capacity,
            "verdict": self._verdict() if self.capacity is not None else "",
            "steps": [{**plain(load), "holds": load.holds(self._target)} for load in self.loads],
        }


def _so_far(turns: list[Turn]) -> str:
    values = [turn.latency for turn in turns]
    cut = sum(turn.cut_in > CUT for turn in turns)
    return (
        f"{len(turns)} turns, p50 {ms(percentile(values, 0.5))}, p95 {ms(percentile(values, 0.95))} ms, {cut} cut into"
    )


def line(load: Load, target: Target) -> str:
    """One step in words."""
    text = f"{load.calls:3d} call{'s' * (load.calls != 1)}, {len(load.turns)} turns:"
    for share in sorted({0.5, target.share}):
        found = load.latency(share)
        text += f" p{share * 100:g} {ms(found.value)} ms ({ms(found.low)}-{ms(found.high)}),"
    text += f" {load.unanswered} unanswered, {load.cut_ins} cut into, {load.wrong} wrong,"
    text += f" {load.gaps} gaps, {load.lost} frames lost, set-up {ms(load.set_up)} ms"
    if load.stops:
        text += f", {len(load.stops)} interruptions heeded after {ms(percentile(load.stops, 0.5))} ms"
    for name, why in (("refused", load.refused), ("broken off", load.broken)):
        if why:
            text += f", {len(why)} {name} ({why[0]})"
    text += f", tester {load.tester_share:.1%} of a core a call"
    if not load.counts:
        return f"{text}; DOES NOT COUNT: the tester itself was {ms(load.tester_late)} ms late (try --workers)"
    return text + ("; holds" if load.holds(target) else "; does not hold")


def ms(seconds: float) -> str:
    """Milliseconds as text."""
    return f"{seconds * 1000:.0f}" if math.isfinite(seconds) else "never" if math.isinf(seconds) else "-"
