"""The twin: a discrete-event model of one machine that holds calls, driven by times measured on it.

Each call talks, is answered, thinks and talks on; while it does, it asks the engines for work: partial
transcripts, the final one, the first words of the answer, its first clause, then the rest. Pieces of work
wait by class and arrival, as in `budget.scheduler`; those that run share the cores. What comes out is the
latency of each turn, so that a number of calls can be tried in milliseconds instead of minutes.

What it leaves out (caches, memory bandwidth, network) is
why it is checked against measured capacity before it is believed.
"""

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from budget.head_start import HeadStart
from budget.work import Urgency


@dataclass(frozen=True)
class Piece:
    """Work that one engine does at once: mean `seconds` alone on the machine, `spread` the sigma of their logarithm."""

    engine: str
    seconds: float
    spread: float = 0.4


@dataclass(frozen=True)
class Engine:
    """`workers` pieces at once; up to `batch` waiting ones as one, each further adding `each` of its time.

    A piece keeps `cores` of them busy.
    `background`: partials have a worker of their own, on cores nobody else wants (`asr.background`).
    """

    name: str
    workers: int = 1
    batch: int = 1
    each: float = 0.2
    cores: float = 1.0
    background: bool = False


@dataclass(frozen=True)
class Machine:
    """What the engines run on. `media`: cores that a call takes all the time, for audio, VAD and protocol."""

    cores: float
    engines: tuple[Engine, ...]
    media: float = 0.02


@dataclass(frozen=True)
class Cost:
    """The pieces of one turn.

    `partial` every `interval` seconds of speech, and `ahead` what the language model reads of each; `final` behind
    the speech, `judge` beside that; then `first_words`
    and `first_clause`, and `more_words` and `more_clauses` (so many) while the answer sounds.
    """

    partial: Piece
    ahead: Piece
    final: Piece
    judge: Piece
    first_words: Piece
    first_clause: Piece
    more_words: Piece
    more_clauses: Piece
    clauses: int = 2
    interval: float = 0.6
    spared: float = 1.2
    """How much longer a partial waits for a machine on which half of the cores are free (`asr.incremental`)."""


@dataclass(frozen=True)
class Talk:
    """How people talk (seconds). `waits`: how long the silence before an answer must be, by share of the turns."""

    speaks: float = 3.5
    speaks_spread: float = 0.5
    answer: float = 4.0
    answer_spread: float = 0.5
    thinks: tuple[float, float] = (0.5, 2.0)
    waits: tuple[tuple[float, float], ...] = ((0.77, 0.2), (0.2, 0.65), (0.03, 1.5))
    notices: float = 0.08
    """The final transcript is asked for so long after the last speech."""
    playout: float = 0.03


@dataclass(frozen=True)
class Rules:
    """The order of work. The service keeps all of these; without one of them the twin tells what it gains."""

    classes: bool = True
    """What somebody waits for goes first; otherwise all work goes by arrival."""
    background: bool = True
    """Partials run on cores that nobody else wants."""
    sparing: bool = True
    """Partials wait for a machine with a free core, and prompts are read ahead only there."""


@dataclass
class _Job:
    done: Callable[[], None]
    left: float
    """Seconds of work, at full speed."""
    background: bool


@dataclass
class _Running:
    jobs: list[_Job]
    left: float
    """Seconds of its work still to do, at full speed."""
    cores: float
    background: bool


_BACKGROUND_SHARE = 0.1
"""Of a core that somebody else wants, what work in the background gets."""


_GOLDEN = 0.6180339887498949
"""Multiples of it fill an interval evenly: each kind of wait comes as often as its share says, not by chance.

Of 400 turns with 3% of long waits, chance alone gave 5% once in a hundred simulations: there the 95th percentile jumps.
"""


RULES = Rules()
_ENOUGH = 12_000.0
"""Seconds of calls to simulate: with half of it p95 was uncertain by 4%, with this by 2%."""


class Simulation:
    """Calls on a machine for a while; `latencies` are those of the turns begun after the first `warm_up` seconds."""

    def __init__(
        self, machine: Machine, cost: Cost, talk: Talk, *, calls: int, seed: int = 0, rules: Rules = RULES
    ) -> None:
        self._machine, self._cost, self._talk, self._rules = machine, cost, talk, rules
        behind = [Engine(_behind(engine.name)) for engine in machine.engines if engine.background and rules.background]
        self._engines = [*machine.engines, *behind]
        self._calls = calls
        self._random = random.Random(seed)
        self._drawn = self._random.random()
        self._head_start = HeadStart()
        self._now = 0.0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._waiting: dict[str, list[tuple[int, int, _Job]]] = {engine.name: [] for engine in self._engines}
        self._running: dict[str, list[_Running]] = {engine.name: [] for engine in self._engines}
        self.latencies: list[float] = []
        self.busy = 0.0
        """Core-seconds of engine work done."""

    def run(self, seconds: float, *, warm_up: float = 20.0) -> "Simulation":
        """Simulate so many seconds."""
        self._counts_from = warm_up
        for _ in range(self._calls):
            self._after(self._random.uniform(0, 8.0), self._speak)
        while self._events or self._running_count():
            at = self._events[0][0] if self._events else math.inf
            finished = self._next_finish()
            if min(at, finished) > seconds:
                break
            if finished <= at:
                self._work_until(finished)
                self._finish()
            else:
                self._work_until(at)
                heapq.heappop(self._events)[2]()
            self._start_waiting()
        return self

    # ---- one call ------------------------------------------------------------------------------

    def _speak(self) -> None:
        """A caller begins a turn."""
        length = self._draw(self._talk.speaks, self._talk.speaks_spread)
        turn = _Turn(self._now + length, partial_at=self._now)
        self._after(0.5, lambda: self._partial(turn))
        self._after(length, lambda: self._fell_silent(turn))

    def _partial(self, turn: "_Turn") -> None:
        if self._now >= turn.speech_end:
            return
        overdue = self._now - turn.partial_at >= self._cost.interval + self._cost.spared
        spare = not self._rules.sparing or overdue or not self._busy(max(1.0, self._machine.cores // 2))
        if spare and not turn.partial_runs:
            turn.partial_runs, turn.partial_at = True, self._now

            def done() -> None:
                turn.partial_runs = False
                if not self._rules.sparing or not self._busy(self._machine.cores):
                    self._ask(self._cost.ahead, Urgency.SPECULATION, lambda: None)

            self._ask(self._cost.partial, Urgency.PARTIAL, done)
        self._after(self._cost.interval, lambda: self._partial(turn))

    def _fell_silent(self, turn: "_Turn") -> None:
        self._drawn = (self._drawn + _GOLDEN) % 1.0
        draw, turn.wait = self._drawn, self._talk.waits[-1][1]
        for share, wait in self._talk.waits:
            if draw < share:
                turn.wait = wait
                break
            draw -= share
        self._after(self._talk.notices, lambda: self._ask(self._cost.final, Urgency.FIRST_AUDIO, judged))
        self._after(self._talk.notices, lambda: self._ask(self._cost.judge, Urgency.FIRST_AUDIO, lambda: None))

        def judged() -> None:
            turn.begun = max(self._now, turn.speech_end + turn.wait - self._head_start.seconds)
            self._at(turn.begun, lambda: self._ask(self._cost.first_words, Urgency.FIRST_AUDIO, worded))

        def worded() -> None:
            self._ask(self._cost.first_clause, Urgency.FIRST_AUDIO, lambda: self._audible(turn))
            self._ask(self._cost.more_words, Urgency.CONTINUATION, lambda: None)

    def _audible(self, turn: "_Turn") -> None:
        self._head_start.seen(self._now - turn.begun)
        heard = max(self._now, turn.speech_end + turn.wait) + self._talk.playout
        if turn.speech_end >= self._counts_from:
            self.latencies.append(heard - turn.speech_end)
        for _ in range(self._cost.clauses):
            self._ask(self._cost.more_clauses, Urgency.CONTINUATION, lambda: None)
        sounds = self._draw(self._talk.answer, self._talk.answer_spread)
        self._at(heard + sounds + self._random.uniform(*self._talk.thinks), self._speak)

    # ---- the machine ---------------------------------------------------------------------------

    def _ask(self, piece: Piece, urgency: Urgency, done: Callable[[], None]) -> None:
        background = urgency is Urgency.PARTIAL and _behind(piece.engine) in self._waiting
        engine = _behind(piece.engine) if background else piece.engine
        job = _Job(done, self._draw(piece.seconds, piece.spread), background)
        order = urgency if self._rules.classes else 0
        heapq.heappush(self._waiting[engine], (order, next(self._order), job))

    def _start_waiting(self) -> None:
        for engine in self._engines:
            waiting, running = self._waiting[engine.name], self._running[engine.name]
            while waiting and len(running) < engine.workers:
                jobs = [heapq.heappop(waiting)[2] for _ in range(min(engine.batch, len(waiting)))]
                longest = max(job.left for job in jobs)
                background = all(job.background for job in jobs)
                length = longest * (1 + engine.each * (len(jobs) - 1))
                running.append(_Running(jobs, length, engine.cores, background))

    def _speeds(self) -> tuple[float, float]:
        """Of work that somebody waits for, and of that in the background; 1: on a core of its own."""
        cores = max(0.05, self._machine.cores - self._machine.media * self._calls)
        behind, ahead = self._wanted(background=True), self._wanted(background=False)
        left = max(cores - ahead, _BACKGROUND_SHARE * min(cores, ahead)) if behind else 0.0
        return min(1.0, (cores - left) / max(1, ahead)), min(1.0, left / max(1, behind))

    def _wanted(self, *, background: bool) -> float:
        """Cores that the running pieces of one kind would keep busy."""
        every = (one for running in self._running.values() for one in running)
        return sum(one.cores for one in every if one.background is background)

    def _busy(self, cores: float) -> bool:
        """Whether so many pieces run."""
        return self._running_count() >= cores

    def _running_count(self) -> int:
        return sum(len(running) for running in self._running.values())

    def _next_finish(self) -> float:
        speeds = self._speeds()
        return self._now + min(
            (one.left / speeds[one.background] for running in self._running.values() for one in running),
            default=math.inf,
        )

    def _work_until(self, at: float) -> None:
        seconds, speeds = at - self._now, self._speeds()
        for running in self._running.values():
            for one in running:
                one.left -= seconds * speeds[one.background]
                self.busy += seconds * speeds[one.background] * one.cores
        self._now = at

    def _finish(self) -> None:
        for running in self._running.values():
            for one in [one for one in running if one.left <= 1e-9]:
                running.remove(one)
                for job in one.jobs:
                    job.done()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._at(self._now + seconds, action)

    def _at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(time, self._now), next(self._order), action))

    def _draw(self, mean: float, spread: float) -> float:
        """A log-normal value of this mean."""
        return mean * math.exp(self._random.gauss(-(spread**2) / 2, spread)) if mean > 0 else 0.0


@dataclass
class _Turn:
    speech_end: float
    wait: float = 0.0
    begun: float = 0.0
    """When its answer was begun."""
    partial_at: float = 0.0
    partial_runs: bool = False


@dataclass(frozen=True)
class Target:
    """What must hold: this share of the turns answered within so many seconds."""

    share: float = 0.95
    seconds: float = 0.8


def _behind(engine: str) -> str:
    """The name of an engine's worker for partials."""
    return f"{engine}/background"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of the values don't exceed; infinite for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)] if ordered else math.inf


def latency(
    machine: Machine,
    cost: Cost,
    talk: Talk,
    calls: int,
    *,
    share: float = 0.95,
    seconds: float = 0.0,
    rules: Rules = RULES,
) -> float:
    """A percentile of voice-to-voice latency (seconds) at so many calls; `seconds` to simulate, 0: enough."""
    length = seconds or max(60.0, _ENOUGH / calls)
    done = Simulation(machine, cost, talk, calls=calls, rules=rules).run(20.0 + length)
    return percentile(done.latencies, share)


def capacity(
    machine: Machine, cost: Cost, talk: Talk, target: Target, *, most: int = 4096, rules: Rules = RULES
) -> int:
    """The most calls, up to `most`, at which the target holds; 0 if it does not even for one."""

    def holds(calls: int) -> bool:
        return latency(machine, cost, talk, calls, share=target.share, rules=rules) <= target.seconds

    best, broke = 0, 1
    while broke <= most and holds(broke):
        best, broke = broke, broke * 2
    broke = min(broke, most + 1)
    while broke - best > 1:
        middle = (best + broke) // 2
        best, broke = (middle, broke) if holds(middle) else (best, middle)
    return best
