"""What is kept of a turn and of a call, written once at its end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from budget.admission import Asked
from budget.deadline import TurnTimings


class Outcome(Enum):
    """How a turn ended."""

    ANSWERED = "answered"
    BARGED_IN = "barged_in"
    TAKEN_BACK = "taken_back"
    FAILED = "failed"
    HUNG_UP = "hung_up"
    """The call ended before its answer did."""
    UNANSWERED = "unanswered"
    """Heard, but the client did not want an answer."""


@dataclass(frozen=True)
class Turn:
    """One turn: what the caller said, what the agent said, and what of it was heard."""

    id: str
    call_id: str
    caller: str
    said: str
    heard_by_caller: str
    timings: TurnTimings
    outcome: Outcome
    cut_at: float | None = None
    """Seconds of the answer that were heard, where it was cut off."""
    at: float = 0.0
    """Media time (seconds into the call) at which the caller began."""

    def record(self) -> dict[str, Any]:
        """The turn as plain data, for the client's event. Texts included: it is the caller's own call."""
        return {**self.measured(), "caller": self.caller, "said": self.said, "heard": self.heard_by_caller}

    def measured(self) -> dict[str, Any]:
        """The turn without what was said, for log lines and metrics."""
        return {
            "turn_id": self.id,
            "call_id": self.call_id,
            "outcome": self.outcome.value,
            "cut_at_s": None if self.cut_at is None else round(self.cut_at, 3),
            **self.timings.milliseconds(),
            "stages": self.timings.bars(),
        }


@dataclass
class OpenTurn:
    """A turn in progress, owned by its call's loop."""

    id: str
    item_id: str
    started: float
    timings: TurnTimings | None = None
    text: str = ""
    cut_at: float | None = None

    def stamp(self, **at: float) -> None:
        """Fill in stamps, if the turn's speech has ended at all."""
        if self.timings is not None:
            self.timings = self.timings.stamp(**at)

    def close(self, call_id: str, outcome: Outcome, said: str, heard: str, stamps: Mapping[str, float]) -> Turn | None:
        """The finished record; None if the caller never fell silent."""
        if self.timings is None:
            return None
        timings = self.timings.stamp(**stamps)
        return Turn(self.id, call_id, self.text, said, heard, timings, outcome, self.cut_at, self.started)


@dataclass
class CallRecord:
    """One call's totals."""

    call_id: str
    kind: str
    started: float
    turns: int = 0
    talked: float = 0.0
    """Seconds that the caller spoke in turns."""
    about: Mapping[str, str] = field(default_factory=dict)
    """What the protocol told of the call."""
    owner: str = ""
    """A hash of the client's key, or its address."""
    profile: str = "dialogue"
    reason: str = ""
    outcomes: dict[str, int] = field(default_factory=dict)

    def count(self, turn: Turn) -> None:
        """Add a finished turn."""
        self.turns += 1
        self.outcomes[turn.outcome.value] = self.outcomes.get(turn.outcome.value, 0) + 1


class CallLog(Protocol):
    """Where calls are kept as they go. Its methods return at once and raise nothing."""

    def began(self, call: CallRecord) -> None:
        """A call was taken."""

    def turn(self, turn: Turn, number: int) -> None:
        """The call's turn of that number (from 1) has ended."""

    def ended(self, call: CallRecord, seconds: float) -> None:
        """A call is over; it lasted so long."""

    def refused(self, asked: Asked, reason: str) -> None:
        """A call was not taken."""
