"""Puts the packets of an RTP stream in order, for a listener that needs no steady clock. No I/O, no clock of its own.

A jitter buffer for a loudspeaker delays everything by its depth, so that it never runs dry. Speech recognition
doesn't mind a burst: what is in order is passed on at once, and only behind a missing packet do later ones wait,
until it comes or `PATIENCE` is over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

PATIENCE = 0.08
"""Seconds that a missing packet is waited for: 40 ms of jitter may swap packets by so much."""
_MOST_WAITING = 32
_JUMP = 100
"""A number so far off is of a new stream: the sender began again (RFC 3550 A.1 uses as much for misorder)."""


@dataclass(frozen=True)
class Lost:
    """So many packets in a row never came."""

    packets: int


class Reorder(Generic[Item]):
    """One stream's packets, by their 16-bit sequence numbers."""

    def __init__(self) -> None:
        self._next: int | None = None
        """The sequence number that is due, not wrapped."""
        self._waiting: dict[int, Item] = {}
        self._gap_since = 0.0
        self.lost = self.late = 0

    def push(self, number: int, item: Item, now: float) -> Iterator[Item | Lost]:
        """Take a packet that came at `now` (seconds); yields what can be passed on."""
        place = self._place(number)
        if place is None:
            self.late += 1
            return
        if not self._waiting:
            self._gap_since = now
        self._waiting[place] = item
        yield from self._in_order(now)
        yield from self.due(now)

    def due(self, now: float) -> Iterator[Item | Lost]:
        """Give up on what is overdue at `now`; yields what waited behind it."""
        while self._waiting and (now - self._gap_since >= PATIENCE or len(self._waiting) > _MOST_WAITING):
            assert self._next is not None
            first = min(self._waiting)
            missing, self._next = first - self._next, first
            self.lost += missing
            yield Lost(missing)
            yield from self._in_order(now)

    def reset(self) -> None:
        """A new stream begins."""
        self._next = None
        self._waiting.clear()

    def _place(self, number: int) -> int | None:
        """The number unwrapped; None for a packet that was passed on or given up already."""
        if self._next is None:
            self._next = number
        ahead = ((number - self._next + 0x8000) & 0xFFFF) - 0x8000
        if abs(ahead) > _JUMP:
            self.reset()
            self._next, ahead = number, 0
        place = self._next + ahead
        return None if ahead < 0 or place in self._waiting else place

    def _in_order(self, now: float) -> Iterator[Item]:
        assert self._next is not None
        passed = False
        while self._next in self._waiting:
            yield self._waiting.pop(self._next)
            self._next += 1
            passed = True
        if passed:
            self._gap_since = now
