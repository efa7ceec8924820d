"""Keeps the number of calls that the machine carries true: measures its speed now and then, and asks the twin again.

A slower machine (heat, a neighbour, a core taken away) and callers who talk more carry fewer calls. Between calls,
or in a moment of a call in which nothing runs, one typical piece of each engine is timed. What disturbs it makes it
longer, never shorter: the best of the last few counts.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from budget.admission import AdmissionController
from budget.carries import Circumstances, carries, question
from budget.errors import HalfsecondError
from budget.processors import CoreMeter, cores
from budget.scheduler import QueueFull
from budget.twin import Target
from budget.unit_costs import CoresUsed, UnitCosts
from budget.work import Work
from voice.calibrate import calibrated, cores_used, machine
from voice.config import Settings
from voice.engines import Engines
from voice.unit_costs import Probe, best_known, measure, probe

log = structlog.get_logger(__name__)

_LOOKS = 15.0
"""Seconds from one look to the next."""
_BEST_OF = 4
_TRIES, _TRIES_EVERY = 100, 0.05
"""So often, in so many seconds each, a quiet moment is looked for."""
_SHARE = 0.02
"""Of the time that timing may take, at most."""
_ENGINES = ("asr", "llm", "tts")


async def ask_twin(asked: str) -> int | None:
    """The twin's answer, from a program that runs on what calls leave of the cores; None if it gave none."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "budget.carries"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        out, _ = await program.communicate(asked.encode())
        return int(out)
    except ValueError:
        log.warning("the twin gave no answer", status=program.returncode)
        return None
    finally:
        if program.returncode is None:
            program.kill()


class Forecast:
    """One for the process, made once its engines are warm and before any call."""

    def __init__(
        self,
        settings: Settings,
        engines: Engines,
        work: Work,
        costs: UnitCosts,
        used: CoresUsed,
        *,
        timed: Callable[..., Awaitable[Probe]] = probe,
        left: Callable[[float], float] | None = None,
        ask: Callable[[str], Awaitable[int | None]] = ask_twin,
    ) -> None:
        self._settings, self._engines, self._work, self._costs = settings, engines, work, costs
        self._timed, self._left, self._twin = timed, left or CoreMeter().left, ask
        self._used = used
        self._target = Target(seconds=settings.call.target)
        self._known = Circumstances(float(cores()))
        """What the last answer was for."""
        self._seen: dict[str, deque[float]] = {name: deque(maxlen=_BEST_OF) for name in _ENGINES}

    @classmethod
    async def measured(cls, settings: Settings, engines: Engines, work: Work) -> "Forecast":
        """Time each kind of work: some two seconds. Raises what the engines raise."""
        found, own = await measure(engines), await calibrated(settings)
        name = f"{machine(settings)}; threads {own.asr.threads}, {own.llm.threads}, {own.tts.threads}"
        costs = best_known(found, name, settings.models.directory / "unit_costs.json")
        return cls(settings, engines, work, costs, cores_used(own))

    async def first(self) -> int:
        """How many calls are answered in time, one at least; told in the log."""
        most = self._settings.call.max_calls
        calls = await asyncio.to_thread(carries, self._costs, self._known, self._target, most=most, used=self._used)
        milliseconds = {f"{name}_ms": round(seconds * 1000) for name, seconds in vars(self._costs).items()}
        log.info("capacity", calls=calls, at_most=most, **milliseconds)
        if calls < 1:
            log.warning(
                "too slow for one call", target=self._target.seconds, advice="smaller models, or a later target"
            )
        return max(1, calls)

    async def watch(self, admission: AdmissionController) -> None:
        """Look again and again until cancelled; tell `admission` of a new number of calls."""
        loop = asyncio.get_running_loop()
        while True:
            took = await self._look(admission.active) if await self._quiet() else 0.0
            now = self._now(admission.talks, loop.time())
            calls = await self._twin(self._question(now)) if now.changed_from(self._known) else None
            if calls is not None:
                self._known = now
                log.info("capacity", calls=max(1, calls), **_rounded(now))
                admission.can_carry(max(1, calls))
            await asyncio.sleep(max(_LOOKS, took / _SHARE))

    async def _look(self, calls: int) -> float:
        """Time each engine while there are so many calls; returns the seconds that it took."""
        began = asyncio.get_running_loop().time()
        alone = self._settings.llm.engine == "llama" and calls <= self._settings.call.max_calls - 2
        try:
            took = await self._timed(self._engines, chat=alone)  # not with the last session: a caller may come for it
        except (HalfsecondError, QueueFull) as error:
            log.debug("an engine could not be timed", error=str(error))
            return 0.0
        best = {"asr": self._costs.decode, "llm": self._costs.first_words, "tts": self._costs.clause}
        for name, seconds in vars(took).items():
            if seconds is not None and best[name] > 0:
                self._seen[name].append(seconds / best[name])
        return asyncio.get_running_loop().time() - began

    def _now(self, talks: float | None, at: float) -> Circumstances:
        slow = {name: max(1.0, min(seen)) if len(seen) == _BEST_OF else 1.0 for name, seen in self._seen.items()}
        return Circumstances(self._left(at), slow["asr"], slow["llm"], slow["tts"], talks)

    def _question(self, now: Circumstances) -> str:
        most = self._settings.call.max_calls
        return question(self._costs, now, self._target, most=most, used=self._used)

    async def _quiet(self) -> bool:
        """Wait for a moment in which no engine works; False if there was none."""
        for _ in range(_TRIES):
            if self._work.idle:
                return True
            await asyncio.sleep(_TRIES_EVERY)
        return False


def _rounded(now: Circumstances) -> dict[str, float | None]:
    return {name: None if value is None else round(value, 2) for name, value in vars(now).items()}
