"""Keeps the promise of an answer in time: admission and governor, joined to what the running service measures.

Turns report their slack here, doors ask here for a place, and once a second the governor looks. Used
by the event loop only.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from budget.admission import AdmissionController, Admitted, Asked, Conditions, Limits, Refused
from budget.governor import Governor
from budget.head_start import HeadStart
from budget.heap import trim
from budget.machine_memory import resident
from budget.memory import MB, MemoryLedger
from budget.quota import Quota
from voice.config import Settings
from voice.observe import Observer

log = structlog.get_logger(__name__)

_WATCHES = 1.0
_MEMORY_EVERY = 5
"""Seconds from one look at the processes' memory to the next."""


class Promise:
    """One for the process, made once its engines are warm."""

    def __init__(
        self,
        settings: Settings,
        ledger: MemoryLedger,
        observer: Observer,
        *,
        capacity: int | None = None,
        resident: Callable[[], int] = resident,
        trim: Callable[[], bool] = trim,
    ) -> None:
        own = settings.admission
        quota = Quota(own.calls_a_key, own.starts_a_minute, own.burst)
        self.ledger = ledger
        self.governor = Governor()
        self.admission = AdmissionController(
            Limits(settings.call.max_calls, own.reserved, quota), capacity=own.capacity or capacity
        )
        self._observer, self._resident, self._trim = observer, resident, trim
        self._memory_kept = True
        self._head_start = HeadStart()
        self.effort = self.governor.effort
        """How much may be done for a call now."""
        observer.promise.on_answer = self._answered
        observer.promise.places(0, self.admission.limit, self.admission.limit)
        observer.promise.governed(0)

    def ask(self, asked: Asked) -> Admitted | Refused:
        """A call wants in. Counted from now on if it is admitted; `ended` gives its place back."""
        decision = self.admission.decide(asked, _now(), self._conditions())
        if isinstance(decision, Refused):
            self._observer.refused(decision.reason.value)
        else:
            self.ledger.hold()
        self._tell()
        return decision

    def ended(self, admitted: Admitted, *, talked: float | None) -> None:
        """An admitted call is over; its caller talked this share of it, if anybody did."""
        self.admission.ended(admitted, _now(), talked=talked)
        profile = admitted.asked.profile
        if (seen := self.admission.activity.get(profile)) is not None:
            self._observer.promise.activity(profile, seen.mean, seen.careful)
        self.ledger.give_back()
        self._tell()

    def places(self) -> tuple[int, int, int]:
        """Calls active, admissible now, and at most."""
        admissible = self.admission.admissible(_now(), self._conditions())
        return self.admission.active, admissible, self.admission.limit

    async def watch(self) -> None:
        """Ask the governor once a second, look at the memory now and then; until cancelled."""
        seconds = 0
        while True:
            await asyncio.sleep(_WATCHES)
            seconds += 1
            change = self.governor.watch(_now())
            if change is not None:
                self._observer.promise.governed(self.governor.level)
                slack = None if change.slack is None else round(change.slack, 3)
                self._set_effort()
                log.warning("governor", before=change.before.name, now=change.after.name, slack=slack)
            if seconds % _MEMORY_EVERY == 0:
                await self._look_at_memory()
            self._tell()

    async def _look_at_memory(self) -> None:
        """Compare with what was promised; what a long speech left free in the heap must not keep callers out."""
        promised = self.ledger.promised("cpu")
        taken = self._resident()
        if taken > promised and await asyncio.to_thread(self._trim):
            taken = self._resident()
        kept = taken <= promised
        if kept is not self._memory_kept:
            tell = log.info if kept else log.error
            tell("memory", taken_mb=round(taken / MB), promised_mb=round(promised / MB))
        self._memory_kept = kept
        self._observer.promise.memory(taken, promised)

    def _answered(self, slack: float, took: float | None, at: float) -> None:
        self.governor.seen(slack, at)
        self.admission.guard.seen(slack, at)
        if took is not None:
            self._head_start.seen(took)
            self._set_effort()

    def _set_effort(self) -> None:
        self.effort = replace(self.governor.effort, head_start=self._head_start.seconds)

    def _conditions(self) -> Conditions:
        return Conditions(
            memory_left=self.ledger.room,
            memory_kept=self._memory_kept,
            loop_lag=self._observer.recent_lag,
            governor_admits=self.governor.effort.admits,
        )

    def _tell(self) -> None:
        self._observer.promise.places(*self.places())


def _now() -> float:
    return asyncio.get_running_loop().time()
