"""Asterisk's AudioSocket over TCP: one connection a call, signed linear audio both ways, digits, hang-up.

Protocol: messages of one byte kind, two bytes length (big-endian) and so many bytes; the first names the call
by a UUID (Asterisk's "AudioSocket" documentation and `res_audiosocket.h`). Audio is signed 16-bit mono,
little-endian. The rate is told by the kind; 0x11 is 12 kHz in the documentation and 16 kHz in an older header,
so that one is told by its length. Asterisk waits for audio of ours, so each frame of the caller's is answered
with one of silence while the agent says nothing.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from uuid import UUID

import structlog

from budget.errors import PeerError
from transport.frame import Framer, Pcm, from_pcm16, to_pcm16
from transport.leg import NoTelephone, Notice
from transport.requests import FromClient, HangUp, PressKey
from transport.resample import Resampler

log = structlog.get_logger(__name__)

START_PATIENCE = 5.0
"""Seconds within which the call must be named, and its first audio be there."""
MEDIA_PATIENCE = 15.0
"""Asterisk sends 20 ms of audio every 20 ms; without any for so long it is gone."""
FAREWELL = 1.0
"""Seconds that a peer gets to close after us."""
_SEND_PATIENCE = 5.0
_HANG_UP, _UUID, _DIGIT, _ERROR = 0x00, 0x01, 0x03, 0xFF
_RATES = {0x10: 8, 0x11: 12, 0x12: 16, 0x13: 24, 0x14: 32, 0x15: 44.1, 0x16: 48, 0x17: 96, 0x18: 192}
"""kHz by kind."""
_AS_16_KHZ = 640
"""Bytes in 20 ms at 16 kHz."""
_READ = 1 << 14


class AudioSocketStream:
    """The protocol of one connection, without a socket."""

    def __init__(self) -> None:
        self.uuid: str | None = None
        self.kind: int | None = None
        """Of the caller's audio; ours is of the same."""
        self.rate = 8_000
        self._rest = b""
        self._framer = Framer()
        self._resampler: Resampler | None = None

    def receive(self, data: bytes) -> Iterator[FromClient]:
        """Take what came. Raises `PeerError` if it is not AudioSocket."""
        self._rest += data
        while len(self._rest) >= 3:
            kind, length = struct.unpack_from(">BH", self._rest)
            if len(self._rest) < 3 + length:
                return
            payload, self._rest = self._rest[3 : 3 + length], self._rest[3 + length :]
            yield from self._message(kind, payload)

    def audio(self, pcm: Pcm) -> bytes:
        """A message with audio at `rate`."""
        data = to_pcm16(pcm)
        return struct.pack(">BH", self.kind or 0x10, len(data)) + data

    def silence(self) -> bytes:
        """A message with 20 ms of it."""
        length = self.rate // 50 * 2
        return struct.pack(">BH", self.kind or 0x10, length) + bytes(length)

    @staticmethod
    def hang_up() -> bytes:
        """The message that ends the call."""
        return struct.pack(">BH", _HANG_UP, 0)

    def _message(self, kind: int, payload: bytes) -> Iterator[FromClient]:
        if kind == _UUID:
            self._name(payload)
        elif self.uuid is None and kind != _HANG_UP:
            raise PeerError("invalid_message", "the first message names the call by its UUID")
        elif kind == _HANG_UP:
            yield HangUp("caller hung up")
        elif kind == _DIGIT:
            yield PressKey(payload.decode("ascii", "replace"))
        elif kind == _ERROR:
            raise PeerError("peer_error", f"Asterisk reports error {payload.hex() or 'of no kind'}")
        elif kind in _RATES:
            yield from self._audio(kind, payload)
        # others may come to be: Asterisk's own server passes over them

    def _name(self, payload: bytes) -> None:
        if len(payload) != 16 or self.uuid is not None:
            raise PeerError("invalid_message", "a call is named once, by a UUID of 16 bytes")
        self.uuid = str(UUID(bytes=payload))

    def _audio(self, kind: int, payload: bytes) -> Iterator[FromClient]:
        if self.kind is None or self._resampler is None:
            self.kind = kind
            self.rate = 16_000 if (kind, len(payload)) == (0x11, _AS_16_KHZ) else round(_RATES[kind] * 1000)
            self._resampler = Resampler(self.rate, 16_000)
        if kind != self.kind:
            raise PeerError("invalid_message", "the audio's rate changed in the middle of the call")
        yield from self._framer.push(self._resampler.push(from_pcm16(payload)))


class AudioSocketLeg(NoTelephone):
    """A call's leg over a connection whose call was named."""

    kind = "audiosocket"
    greets = True

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stream: AudioSocketStream,
        early: list[FromClient],
    ) -> None:
        self._reader, self._writer, self._stream = reader, writer, stream
        self._entries = early
        """Came before the call began."""
        self._sent = 0.0
        """When audio was last sent (loop seconds)."""
        self._hung_up = False

    @property
    def rate(self) -> int:
        """See `CallLeg`: the caller's."""
        return self._stream.rate

    @property
    def about(self) -> Mapping[str, str]:
        """See `CallLeg`: the UUID that the dialplan gave the call."""
        return {"uuid": self._stream.uuid or ""}

    async def frames(self) -> AsyncIterator[FromClient]:
        """See `CallLeg`."""
        while True:
            for entry in self._entries:
                await self._keep_awake()
                yield entry
            try:
                async with asyncio.timeout(MEDIA_PATIENCE):
                    data = await self._reader.read(_READ)
            except (TimeoutError, ConnectionError):
                return
            if not data:
                return
            self._entries = list(self._stream.receive(data))

    async def play(self, pcm: Pcm) -> None:
        """See `CallLeg`."""
        self._sent = asyncio.get_running_loop().time()
        await self._send(self._stream.audio(pcm))

    async def flush(self) -> float:
        """See `CallLeg`: Asterisk plays what it gets; nothing can be taken back."""
        return 0.0

    async def notify(self, notice: Notice) -> None:
        """See `CallLeg`: a telephone has no words for it."""

    async def hangup(self, reason: str) -> None:
        """See `CallLeg`."""
        if not self._hung_up:
            self._hung_up = True
            await self._send(AudioSocketStream.hang_up())

    async def _keep_awake(self) -> None:
        if asyncio.get_running_loop().time() - self._sent > 0.1:
            await self._send(self._stream.silence())

    async def _send(self, data: bytes) -> None:
        """Send a message. A peer that reads nothing for seconds is closed, so that it can't hold the call up."""
        if self._writer.is_closing():
            return
        try:
            self._writer.write(data)
            async with asyncio.timeout(_SEND_PATIENCE):
                await self._writer.drain()
        except (TimeoutError, ConnectionError):
            self._writer.transport.abort()


async def await_call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AudioSocketLeg:
    """Read until the call is named and its first audio is there, which tells the rate.

    Raises `PeerError` if that doesn't come in time.
    """
    stream, early = AudioSocketStream(), list[FromClient]()
    try:
        async with asyncio.timeout(START_PATIENCE):
            while stream.kind is None:
                data = await reader.read(_READ)
                early += stream.receive(data)
                if not data or any(isinstance(entry, HangUp) for entry in early):
                    raise PeerError("closed", "the connection closed before the call began")
    except TimeoutError as error:
        raise PeerError("timeout", f"no audio within {START_PATIENCE:.0f} s") from error
    except ConnectionError as error:
        raise PeerError("closed", "the connection broke before the call began") from error
    return AudioSocketLeg(reader, writer, stream, early)


async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close a connection so that what was sent last arrives: with audio unread it would be reset and lost."""
    with suppress(TimeoutError, ConnectionError, RuntimeError):
        async with asyncio.timeout(FAREWELL):
            writer.write_eof()
            while await reader.read(_READ):
                pass
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
