"""Runs the callers of a step: in this process, or spread over several, so that many calls come from one machine."""

import asyncio
import multiprocessing
import queue
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

from loadtest.arrivals import Planned
from loadtest.browser import Browser
from loadtest.dialogue import Caller, CallResult, Deck, Turn
from loadtest.latency import trimmed
from loadtest.line import Line, Pcm
from loadtest.load import Load
from loadtest.observed import between, scrape
from loadtest.recordings import chosen, load, spoken
from loadtest.script import Script
from loadtest.sip import Sip
from loadtest.telephone import Telephone
from loadtest.webrtc import WebRtc

PROTOCOLS: dict[str, type[Line]] = {"twilio": Telephone, "realtime": Browser, "webrtc": WebRtc, "sip": Sip}
_LEAD = 0.2
"""Seconds before the first call."""
_NEWS = 4096
"""Turns that may wait to be shown; beyond it a worker waits."""
_WORKER_LEAD = 3.0
"""The same for workers, which start as processes of their own and load their recordings."""


@dataclass(frozen=True)
class Aim:
    """Whom to call and how, the same for every step."""

    server: str
    protocol: str = "twilio"
    key: str = ""
    recordings: Path | None = None
    workers: int = 1


def _deck(aim: Aim, script: Script, seed: int) -> Deck:
    """What a script says, at the protocol's rate. Raises `ValueError` if it finds nothing."""
    rate = PROTOCOLS[aim.protocol].rate
    return Deck([(clip, _samples(clip.path, rate)) for clip in chosen(script, spoken(aim.recordings))], seed)


@cache
def _samples(path: Path, rate: int) -> Pcm:
    """A recording's speech: the same in every step."""
    return trimmed(load(path, rate), rate)


async def hold(
    aim: Aim, plan: list[Planned], *, settled: float = 0.0, on_turn: Callable[[Turn], None] = lambda turn: None
) -> Load:
    """Make all the calls of a plan and wait for the last; what was measured."""
    began = asyncio.get_running_loop().time()
    before = await scrape(aim.server, aim.key)
    if aim.workers > 1:
        results, cpu = await _by_workers(aim, plan, on_turn)
    else:
        results, cpu = await _calls(aim, plan, None, on_turn)
    after = await scrape(aim.server, aim.key)
    seconds = asyncio.get_running_loop().time() - began
    return Load(len(plan), tuple(results), settled, seconds, cpu, between(before, after, seconds))


async def _calls(
    aim: Aim, plan: list[Planned], begins: float | None, on_turn: Callable[[Turn], None]
) -> tuple[list[CallResult], float]:
    """The calls of a plan whose zero is at `begins` (monotonic clock, the same in all processes); None: at once.

    Beside the results the processor time (seconds) that calling took, without reading the recordings.
    """
    loop = asyncio.get_running_loop()
    first = {planned.script: planned.seed for planned in reversed(plan)}
    decks = {script: _deck(aim, script, seed) for script, seed in first.items()}
    used = process_time()
    began = loop.time() + _LEAD if begins is None else begins

    async def one(planned: Planned) -> CallResult:
        await asyncio.sleep(began + planned.start - loop.time())
        line = PROTOCOLS[aim.protocol](aim.server, aim.key)
        caller = Caller(
            line,
            planned.script,
            decks[planned.script],
            seed=planned.seed,
            number=planned.number,
            step_began=began,
            on_turn=on_turn,
        )
        return await caller.call(planned.end)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(planned)) for planned in plan]
    return [task.result() for task in tasks], process_time() - used


async def _by_workers(aim: Aim, plan: list[Planned], on_turn: Callable[[Turn], None]) -> tuple[list[CallResult], float]:
    context = multiprocessing.get_context("spawn")
    news: Any = context.Queue(_NEWS)
    began = asyncio.get_running_loop().time() + _WORKER_LEAD
    parts = [part for i in range(aim.workers) if (part := plan[i :: aim.workers])]
    workers = [context.Process(target=_worker, args=(aim, part, began, news), daemon=True) for part in parts]
    for worker in workers:
        worker.start()
    results: list[CallResult] = []
    cpu, done = 0.0, 0
    try:
        while done < len(workers):
            item = await asyncio.to_thread(_next, news)
            match item:
                case Turn():
                    on_turn(item)
                case (part, used):
                    results, cpu, done = results + part, cpu + used, done + 1
                case None if not all(worker.is_alive() or worker.exitcode == 0 for worker in workers):
                    raise RuntimeError("a worker of the load tester died")
    finally:
        for worker in workers:
            worker.kill()
    return sorted(results, key=lambda result: result.number), cpu


def _next(news: Any) -> Any:
    """The next message of a worker; None after a while without one."""
    try:
        return news.get(timeout=0.5)
    except queue.Empty:
        return None


def _worker(aim: Aim, plan: list[Planned], began: float, news: Any) -> None:
    news.put(asyncio.run(_calls(aim, plan, began, news.put)))
