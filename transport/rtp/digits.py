"""Keys as telephone events (RFC 4733): heard once each though sent many times, and sent in step with the audio."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from aiortp import DtmfEvent
from aiortp.dtmf import DTMF_EVENTS

TONE, PAUSE = 0.1, 0.08
"""Seconds that a key sounds, and of quiet after it. Exchanges want at least 40 ms of each (ITU-T Q.24)."""
_REPEATS = 3
"""The end of an event is sent so often (RFC 4733 2.5.1.4)."""
_LONGEST = 0xFFFF
"""Of the 16-bit duration: a key held longer goes on as a further event (RFC 4733 2.5.1.3)."""
_REMEMBERED = 16


class DigitsHeard:
    """Finds the keys in an incoming stream. A key counts from its first packet on, so none is lost with its last."""

    def __init__(self) -> None:
        self._begun: deque[int] = deque(maxlen=_REMEMBERED)
        self._event, self._last = -1, 0

    def receive(self, payload: bytes, timestamp: int) -> str | None:
        """The key that begins with this packet, if one does."""
        try:
            event = DtmfEvent.parse(payload)
        except ValueError:
            return None
        goes_on = event.event == self._event and timestamp == (self._last + _LONGEST) & 0xFFFFFFFF
        if goes_on:
            self._begun.append(timestamp)
        if timestamp in self._begun:
            self._last = timestamp
            return None
        self._begun.append(timestamp)
        self._event, self._last = event.event, timestamp
        return event.digit if event.digit != "?" else None


@dataclass(frozen=True)
class EventPacket:
    """One packet to send: of the event that began `age` packets ago."""

    payload: bytes
    first: bool
    """It begins the event: marked, and its timestamp is the event's."""


def event_packets(key: str, clock: int, ptime: int) -> Iterator[EventPacket | None]:
    """The packets of a key, one each `ptime` ms; None where a packet of quiet goes.

    Raises `ValueError` for what is no key.
    """
    if key.upper() not in DTMF_EVENTS:
        raise ValueError(f"{key!r} is no key: 0-9, *, #, A-D")
    code, step = DTMF_EVENTS[key.upper()], clock * ptime // 1000
    count = max(2, round(TONE * 1000 / ptime))
    for number in range(count):
        yield EventPacket(DtmfEvent(code, False, 10, (number + 1) * step).serialize(), number == 0)
    for _ in range(_REPEATS):
        yield EventPacket(DtmfEvent(code, True, 10, count * step).serialize(), False)
    for _ in range(max(1, round(PAUSE * 1000 / ptime))):
        yield None
