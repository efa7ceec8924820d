"""Whether one more call can be answered in time: a decision in microseconds, and when to ask again.

A call is admitted only if everything holds: there is room by the machine's capacity (measured, or
found by the twin), its memory is left, answers have come in time of late, the event loop is not
behind, the governor has not closed the door, and its client has not more than its share. A refusal
is a value that says why and when to come back. No call that was admitted is ever dropped for another.
"""

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum

from budget.activity import PROFILES, Activity
from budget.quota import Quota, Quotas
from budget.slack import SlackGuard


class Reason(Enum):
    """Why a call is refused; the values are stable, for clients and metrics."""

    NOT_READY = "not_ready"
    CAPACITY = "at_capacity"
    RESERVED = "places_reserved"
    MEMORY = "out_of_memory"
    LATE = "answers_late"
    BUSY = "event_loop_late"
    GOVERNOR = "governor_closed"
    CALLS = "too_many_calls"
    STARTS = "too_many_starts"

    @property
    def own_fault(self) -> bool:
        """Whether the client's own limit is reached (HTTP 429), not the machine's (503)."""
        return self in (Reason.CALLS, Reason.STARTS)


@dataclass(frozen=True)
class Asked:
    """A call that wants in: whose it is, of which profile, and whether it may use the reserved places."""

    key: str = ""
    profile: str = "dialogue"
    priority: bool = False
    transport: str = ""


@dataclass(frozen=True)
class Admitted:
    """The call may begin; hand this back when it ends."""

    asked: Asked
    at: float


@dataclass(frozen=True)
class Refused:
    """The call may not begin; `retry_after` seconds from now it is likely that it may."""

    reason: Reason
    message: str
    retry_after: float


@dataclass(frozen=True)
class Conditions:
    """The machine at this moment, as far as it is measured elsewhere."""

    memory_left: bool = True
    memory_kept: bool = True
    """No engine holds more than it reserved."""
    loop_lag: float = 0.0
    """Worst lag of the event loop in the last seconds."""
    governor_admits: bool = True


@dataclass(frozen=True)
class Limits:
    """What the operator set. `reserved` places are for calls with priority."""

    calls: int
    reserved: int = 0
    quota: Quota = field(default_factory=Quota)
    most_lag: float = 0.25


_USUAL_CALL = 60.0
"""Seconds a call is taken to last before any has ended."""
_MEMORY_FREES = 5.0
_LOOP_RECOVERS = 2.0
_GOVERNOR_OPENS = 15.0
_LONGEST_WAIT = 300.0


class AdmissionController:
    """Counts the calls of the process and decides about the next. Used by the event loop only.

    `capacity` is how many calls the machine answers in time; it can be found anew while calls run.
    """

    def __init__(self, limits: Limits, *, capacity: int | None = None, seed: int | None = None) -> None:
        self._limits = limits
        self._capacity = limits.calls if capacity is None else capacity
        self._random = random.Random(seed)
        self._quotas = Quotas(limits.quota)
        self._lengths: deque[float] = deque(maxlen=200)
        self._promised: deque[float] = deque(maxlen=1000)
        """When those who were refused for want of a place were told to come back."""
        self.guard = SlackGuard()
        self.active = 0
        self._ended: Counter[str] = Counter()
        """Calls by profile in which the caller talked."""
        self.activity = {name: Activity.expected(share) for name, share in PROFILES.items()}

    @property
    def talks(self) -> float | None:
        """The share of a call that its caller talks, by the profiles of those that were; None before any was."""
        calls = sum(self._ended.values())
        if not calls:
            return None
        return sum(count * self.activity[profile].mean for profile, count in self._ended.items()) / calls

    @property
    def limit(self) -> int:
        """The most calls at once: the operator's bound and the machine's capacity, the smaller."""
        return max(1, min(self._limits.calls, self._capacity))

    def can_carry(self, calls: int) -> None:
        """The machine's capacity was found anew."""
        self._capacity = calls

    def admissible(self, now: float, conditions: Conditions) -> int:
        """How many more calls would be admitted now, by a client without limits or priority."""
        if self._trouble(now, conditions) is not None:
            return 0
        return max(0, self.limit - self._reserved(priority=False) - self.active)

    def decide(self, asked: Asked, now: float, conditions: Conditions) -> Admitted | Refused:
        """Admit the call, and count it from now on, or say why not. `now` in loop seconds."""
        refused = self._own_limit(asked, now) or self._no_place(asked, now) or self._trouble(now, conditions)
        if refused is not None:
            return refused
        self.active += 1
        self._quotas.began(asked.key, now)
        return Admitted(asked, now)

    def ended(self, admitted: Admitted, now: float, *, talked: float | None = None) -> None:
        """An admitted call is over; its caller `talked` this share of it, where that is known."""
        self.active = max(0, self.active - 1)
        self._quotas.ended(admitted.asked.key)
        seconds = max(0.0, now - admitted.at)
        self._lengths.append(seconds)
        if talked is not None and admitted.asked.profile in self.activity:
            self.activity[admitted.asked.profile] = self.activity[admitted.asked.profile].seen(talked)
            self._ended[admitted.asked.profile] += 1

    def _own_limit(self, asked: Asked, now: float) -> Refused | None:
        if self._quotas.full(asked.key):
            text = f"this key has {self._limits.quota.calls} calls already, as many as it may have at once"
            return Refused(Reason.CALLS, text, self._jittered(self._mean_length() / self._limits.quota.calls))
        if wait := self._quotas.wait(asked.key, now):
            text = f"this key may begin {self._limits.quota.a_minute:g} calls a minute"
            return Refused(Reason.STARTS, text, wait)
        return None

    def _trouble(self, now: float, conditions: Conditions) -> Refused | None:
        """What keeps every new call out for now."""
        if not conditions.memory_left or not conditions.memory_kept:
            over = "an engine holds more memory than it reserved" if conditions.memory_left else "no memory is left"
            return Refused(Reason.MEMORY, f"{over}; call again later", self._jittered(_MEMORY_FREES))
        if conditions.loop_lag > self._limits.most_lag:
            return Refused(Reason.BUSY, "the service is behind with its work", self._jittered(_LOOP_RECOVERS))
        if not conditions.governor_admits:
            return Refused(Reason.GOVERNOR, "the service is catching up", self._jittered(_GOVERNOR_OPENS))
        if opens_in := self.guard.opens_in(now):
            return Refused(Reason.LATE, "answers have been late; call again later", self._jittered(opens_in))
        return None

    def _no_place(self, asked: Asked, now: float) -> Refused | None:
        reserved = self._reserved(priority=asked.priority)
        if self.active < self.limit - reserved:
            return None
        if self.active < self.limit:
            text = f"the last {reserved} of {self.limit} places are kept for calls with priority"
            return Refused(Reason.RESERVED, text, self._place_frees(now))
        return Refused(Reason.CAPACITY, f"all {self.limit} places are taken; call again later", self._place_frees(now))

    def _reserved(self, *, priority: bool) -> int:
        """Places that this call may not use; a machine for one call reserves none."""
        return 0 if priority else min(self._limits.reserved, self.limit - 1)

    def _place_frees(self, now: float) -> float:
        """When a place is likely to be free, behind those who were told to come back before."""
        while self._promised and self._promised[0] <= now:
            self._promised.popleft()
        every = self._mean_length() / self.limit
        wait = min(_LONGEST_WAIT, self._jittered((len(self._promised) + 1) * every))
        self._promised.append(now + wait)
        return wait

    def _mean_length(self) -> float:
        known = [_USUAL_CALL, *self._lengths]
        return sum(known) / len(known)

    def _jittered(self, seconds: float) -> float:
        """Up to a fifth longer, so that those refused together don't come back together; at least a second."""
        return max(1.0, seconds * self._random.uniform(1.0, 1.2))
