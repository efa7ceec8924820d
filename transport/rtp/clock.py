"""One clock for the audio of all calls: a timer for each call would cost more than its packets."""

from collections.abc import Callable

from aiortp import MediaClock, PortAllocator

from transport.rtp.stream import RtpStream

TICK = 0.005
"""Seconds between two looks at which calls are due: packets are late by so much at most, while the process keeps up."""


class RtpClock:
    """Ticks while there are calls."""

    def __init__(self, now: Callable[[], float], ports: PortAllocator) -> None:
        self._now, self.ports = now, ports
        self._streams: set[RtpStream] = set()
        self._clock: MediaClock | None = None

    def add(self, stream: RtpStream) -> None:
        """Send this call's audio from now on."""
        self._streams.add(stream)
        if self._clock is None:
            self._clock = MediaClock(TICK, self._tick)
            self._clock.start()

    async def remove(self, stream: RtpStream) -> None:
        """The call is over; safe to call twice."""
        self._streams.discard(stream)
        if not self._streams and self._clock is not None:
            clock, self._clock = self._clock, None
            await clock.stop()

    def _tick(self) -> None:
        now = self._now()
        for stream in tuple(self._streams):
            stream.tick(now)
