"""Keeps the promise of an answer in time: admission and governor, joined to what the running service measures.

Turns report their slack here, doors ask here for a place, and once a second the governor looks. Used
by the event loop only.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from budget.admission import AdmissionController, Admitted, Asked, Conditions, Limits, Refused
from budget.governor import Governor, ladder
from budget.head_start import HeadStart
from budget.heap import trim
from budget.machine_memory import taken
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
        taken: Callable[[str], int | None] = taken,
        trim: Callable[[], bool] = trim,
    ) -> None:
        own = settings.admission
        quota = Quota(own.calls_a_key, own.starts_a_minute, own.burst)
        self.ledger = ledger
        self.governor = Governor(ladder=ladder(smaller=bool(settings.asr.smaller)))
        self.admission = AdmissionController(
            Limits(settings.call.max_calls, own.reserved, quota), capacity=own.capacity or capacity
        )
        self._observer, self._taken, self._trim = observer, taken, trim
        self._memory_kept = True
        self._told: set[str] = set()
        """Devices of which it was known what they hold."""
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
            self._observer.refused(asked, decision.reason.value)
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
        over: list[str] = []
        for device in self.ledger.devices:
            promised, taken = self.ledger.own(device.name), self._taken(device.name)
            if device.name == "cpu" and taken is not None and taken > promised and await asyncio.to_thread(self._trim):
                taken = self._taken(device.name)
            self._observer.promise.memory(device.name, taken, promised)
            if not self._keeps(device.name, taken, promised):
                over.append(device.name)
                if self._memory_kept:
                    megabytes = None if taken is None else round(taken / MB)
                    log.error("memory", device=device.name, taken_mb=megabytes, promised_mb=round(promised / MB))
        if not over and not self._memory_kept:
            log.info("memory", kept=True)
        self._memory_kept = not over
        self._observer.promise.memory_kept(self._memory_kept)

    def _keeps(self, device: str, taken: int | None, promised: int) -> bool:
        """Whether a device holds what was promised; one that told before and tells nothing any more is gone."""
        if taken is None:
            return device not in self._told
        self._told.add(device)
        return taken <= promised

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
