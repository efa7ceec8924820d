"""A call's leg over SIP: its audio by RTP, its control by a line that sends BYE and REFER."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Protocol

import structlog
from aiosipua.sdp import SdpMessage

from budget.errors import PeerError
from transport.backlog import Backlog
from transport.frame import Pcm
from transport.leg import FromClient, Hold, Notice
from transport.rtp.clock import RtpClock
from transport.rtp.stream import Media, RtpStream
from transport.sip import offer
from transport.sip.offer import Local

log = structlog.get_logger(__name__)

MEDIA_PATIENCE = 30.0
"""Seconds without audio or report after which the other side counts as gone, unless it holds."""
ANSWER_PATIENCE = 32.0
"""Seconds that the answer to our offer may take: as long as an acknowledgement may (RFC 3261 13.3.1.4)."""
TRANSFER_PATIENCE = 20.0
"""Seconds that the other side gets to say how a transfer went."""


class Line(Protocol):
    """The signalling of one call, whoever called."""

    def bye(self) -> None:
        """End the call. Safe to call twice."""
        ...

    def refer(self, target: str) -> None:
        """Ask the other side to call `target` instead."""
        ...


class SipLeg:
    """A call's leg. Created when its audio's ports are open; `agreed` when both sides know what is spoken."""

    kind = "sip"
    greets = True

    def __init__(self, about: Mapping[str, str], line: Line, local: Local, clock: RtpClock) -> None:
        self.about: Mapping[str, str] = about
        self.local = local
        self._line, self._clock = line, clock
        self._inbound = Backlog()
        self._stream: RtpStream
        self._ready = asyncio.Event()
        self._transferred: asyncio.Future[int] | None = None
        self._transfer_accepted = False
        self._answered = self._offered = False

    @classmethod
    async def open(
        cls, about: Mapping[str, str], line: Line, local: Local, media: Media, clock: RtpClock, host: str
    ) -> "SipLeg":
        """Take ports for the call's audio on `host`. Raises `RuntimeError` if none is free."""
        leg = cls(about, line, local, clock)
        leg._stream = RtpStream(media, leg._inbound.put, clock.ports)
        port = await leg._stream.open(host, asyncio.get_running_loop().time())
        leg.local = Local(local.host, port, local.formats, local.ptime, local.session)
        return leg

    @property
    def rate(self) -> int:
        """See `CallLeg`."""
        return self._stream.media.form.rate

    @property
    def media(self) -> Media:
        """What is spoken."""
        return self._stream.media

    async def ready(self) -> None:
        """Wait until it is agreed what is spoken, or the other side is gone."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_PATIENCE):
                await self._ready.wait()
        if not self._ready.is_set():
            self.ended("no acknowledgement")

    @property
    def answered(self) -> bool:
        """Both sides agreed on the audio."""
        return self._answered

    @property
    def offered(self) -> bool:
        """An offer of ours waits for its answer."""
        return self._offered

    def agreed(self, media: Media) -> None:
        """Both sides know what is spoken: begin, or go on otherwise. Tells the call of hold and resume."""
        held = self._stream.media.held
        self._offered = False
        if media != self._stream.media:
            self._stream.agree(media)
        if not self._answered:
            self._answered = True
            self._ready.set()
            self._clock.add(self._stream)
        elif media.held != held:
            self._inbound.put(Hold(media.held))

    def answer(self, sdp: SdpMessage) -> SdpMessage:
        """The answer to an offer in the middle of the call, which holds from now on. Raises `PeerError`."""
        self.local = self.local.changed()
        reply, media = offer.answer(sdp, self.local)
        self.agreed(media)
        return reply

    def offer(self) -> SdpMessage:
        """Our offer, where the other side asks for one: everything at first, what is in use later."""
        self._offered = True
        if not self._answered:
            return offer.offer(self.local)
        self.local = self.local.changed()
        return offer.offer(self.local, current=self._stream.media)

    def accepted(self, sdp: SdpMessage) -> None:
        """The other side's answer to our offer. Raises `PeerError`."""
        self.agreed(offer.accepted(sdp, self.local))

    def put(self, entry: FromClient) -> None:
        """Something that the signalling brings, such as a key."""
        self._inbound.put(entry)

    def ended(self, reason: str) -> None:
        """The other side is gone."""
        self._inbound.close(reason)
        self._ready.set()
        self.transfer_went(200 if self._transfer_accepted else 487)  # an exchange may hang up instead of telling

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
        self._transferred = asyncio.get_running_loop().create_future()
        self._line.refer(target)
        try:
            async with asyncio.timeout(TRANSFER_PATIENCE):
                status = await self._transferred
        except TimeoutError:
            raise PeerError("transfer_failed", "the other side did not say how the transfer went") from None
        finally:
            self._transferred = None
        if status >= 300:
            raise PeerError("transfer_failed", f"the other side answered {status}")

    def transfer_went(self, status: int) -> None:
        """The other side says so (a SIP status); the first final one counts. 202: it will tell."""
        if status == 202:
            self._transfer_accepted = True
        elif self._transferred is not None and not self._transferred.done() and status >= 200:
            self._transferred.set_result(status)
