"""A call's leg over SIP: its audio by RTP, its control by a line that sends BYE and REFER."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Protocol

import structlog

from budget.errors import PeerError
from transport.backlog import Backlog
from transport.frame import Pcm
from transport.leg import Notice
from transport.requests import FromClient, Hold
from transport.rtp.clock import RtpClock
from transport.rtp.stream import Media, RtpStream
from transport.sip.negotiation import Negotiation
from transport.sip.offer import Local
from transport.sip.referral import Referral

log = structlog.get_logger(__name__)

MEDIA_PATIENCE = 30.0
"""Seconds without audio or report after which the other side counts as gone, unless it holds."""
ANSWER_PATIENCE = 32.0
"""Seconds that the answer to our offer may take: as long as an acknowledgement may (RFC 3261 13.3.1.4)."""


class Line(Protocol):
    """The signalling of one call, whoever called."""

    def bye(self) -> None:
        """End the call. Safe to call twice."""
        ...

    def refer(self, target: str) -> None:
        """Ask the other side to call `target` instead."""
        ...


class SipLeg:
    """A call's leg. Created when its audio's ports are open; what is spoken is its `negotiation`'s matter."""

    kind = "sip"
    greets = True

    def __init__(self, about: Mapping[str, str], line: Line, clock: RtpClock) -> None:
        self.about: Mapping[str, str] = about
        self.negotiation: Negotiation
        self._line, self._clock = line, clock
        self._inbound = Backlog()
        self._stream: RtpStream
        self._held = False
        self._ready = asyncio.Event()
        self.referral = Referral()

    @classmethod
    async def open(
        cls, about: Mapping[str, str], line: Line, local: Local, media: Media, clock: RtpClock, host: str
    ) -> "SipLeg":
        """Take ports for the call's audio on `host`. Raises `RuntimeError` if none is free."""
        leg = cls(about, line, clock)
        leg._stream = RtpStream(media, leg._inbound.put, clock.ports)
        port = await leg._stream.open(host, asyncio.get_running_loop().time())
        ours = Local(local.host, port, local.formats, local.ptime, local.session)
        leg.negotiation = Negotiation(leg._stream, ours, leg._agreed)
        return leg

    @property
    def rate(self) -> int:
        """See `CallLeg`."""
        return self._stream.media.form.rate

    async def ready(self) -> None:
        """Wait until it is agreed what is spoken, or the other side is gone."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_PATIENCE):
                await self._ready.wait()
        if not self._ready.is_set():
            self.ended("no acknowledgement")

    def _agreed(self, first: bool) -> None:
        """Both sides know what is spoken: begin, or go on otherwise. Tells the call of hold and resume."""
        held, self._held = self._held, self._stream.media.held
        if first:
            self._ready.set()
            self._clock.add(self._stream)
        elif held != self._held:
            self._inbound.put(Hold(self._held))

    def put(self, entry: FromClient) -> None:
        """Something that the signalling brings, such as a key."""
        self._inbound.put(entry)

    def ended(self, reason: str) -> None:
        """The other side is gone."""
        self._inbound.close(reason)
        self._ready.set()
        self.referral.hung_up()

    # ---- see `CallLeg` -----------------------------------------------------------------------------

    async def frames(self) -> AsyncIterator[FromClient]:
        """See `CallLeg`."""
        loop = asyncio.get_running_loop()
        self._stream.heard_at = loop.time()
        async for entry in self._inbound.entries():
            yield entry
            if loop.time() - self._stream.heard_at > MEDIA_PATIENCE and not self._stream.media.held:
                raise PeerError("no_media", f"no audio for {MEDIA_PATIENCE:.0f} s")

    async def play(self, pcm: Pcm) -> None:
        """See `CallLeg`."""
        self._stream.play(pcm)

    async def flush(self) -> float:
        """See `CallLeg`: what waits here was not sent."""
        return self._stream.flush()

    async def notify(self, notice: Notice) -> None:
        """See `CallLeg`: a telephone has no words for it."""

    async def hangup(self, reason: str) -> None:
        """See `CallLeg`."""
        self._line.bye()
        self.ended(reason)
        await self._clock.remove(self._stream)
        await self._stream.close()
        if self._inbound.dropped:
            log.warning("audio dropped: the call could not keep up", frames=self._inbound.dropped)

    async def press(self, keys: str) -> None:
        """See `CallLeg`."""
        if self._stream.media.events is None:
            raise PeerError("unsupported", "this line takes no keys")
        try:
            self._stream.press(keys)
        except ValueError as error:
            raise PeerError("invalid_keys", str(error)) from error
        await self._stream.pressed()

    async def transfer(self, target: str) -> None:
        """See `CallLeg`: REFER (RFC 3515); the other side tells by NOTIFY how it went."""
        try:
            self._line.refer(target)
        except ValueError as error:
            raise PeerError("transfer_failed", "the call is not established, or over") from error
        await self.referral.over()
