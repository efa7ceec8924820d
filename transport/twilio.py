"""Twilio Media Streams over a WebSocket: mu-law at 8 kHz both ways, `mark` and `clear`.

Protocol: JSON messages `connected`, `start`, `media`, `mark`, `dtmf`, `stop` from Twilio; `media`,
`mark`, `clear` to it (Twilio's Media Streams WebSocket messages). Twilio buffers what it is sent
and returns a mark when playback reaches it; after a `clear` it returns all outstanding marks at
once, which then say nothing about what was heard.
"""

import asyncio
import base64
import binascii
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from budget.errors import PeerError
from transport import g711
from transport.frame import Framer, Pcm
from transport.leg import NoTelephone, Notice
from transport.requests import FromClient, HangUp, PressKey
from transport.resample import Resampler

RATE = 8_000
MOST_BYTES = 1 << 18
START_PATIENCE = 10.0
"""Seconds within which a stream must start."""
MEDIA_PATIENCE = 15.0
"""Twilio sends 20 ms of audio every 20 ms, silence too; without any for so long it is gone."""
_MARK_EVERY = 25
"""Frames between marks: half a second."""
_MOST_ERRORS = 20
_MOST_PARAMETERS, _LONGEST = 32, 500
"""Parameters of a call that are kept, and characters of each."""
KEY = "api_key"
"""The parameter that carries the key: Twilio can send no headers."""


@dataclass(frozen=True)
class Started:
    """The stream began."""

    stream: str
    call: str
    parameters: dict[str, str]


class MediaStream:
    """The protocol of one stream, without a socket."""

    def __init__(self) -> None:
        self.started: Started | None = None
        self._framer = Framer()
        self._resampler = Resampler(RATE, 16_000)
        self._marks: deque[tuple[str, int]] = deque()
        self._void: set[str] = set()
        self._sent = 0
        self._acknowledged = False
        self._count = 0

    def receive(self, text: str | bytes) -> list[FromClient]:
        """Take one message of Twilio's. Raises `PeerError` if it is not one."""
        try:
            message = json.loads(text)
            kind = message["event"]
        except (ValueError, RecursionError, TypeError, KeyError) as error:
            raise PeerError("invalid_message", "not a Media Streams message") from error
        try:
            match kind:
                case "start":
                    self._start(message)
                case "media":
                    return self._media(message)
                case "mark":
                    self._mark(message["mark"]["name"])
                case "stop":
                    return [HangUp("caller hung up")]
                case "dtmf":
                    return [PressKey(str(message["dtmf"]["digit"]))]
                case "connected":
                    pass
                case _:
                    raise PeerError("unknown_event", f"unknown event {str(kind)[:40]!r}")
        except (KeyError, TypeError, AttributeError, binascii.Error, ValueError) as error:
            raise PeerError("invalid_message", f"a broken {str(kind)[:40]!r} message") from error
        return []

    def play(self, pcm: Pcm) -> list[dict[str, Any]]:
        """Messages that send audio (8 kHz), with a mark every half a second."""
        payload = base64.b64encode(g711.encode(pcm)).decode()
        messages = [self._message("media", media={"payload": payload})]
        self._sent += len(pcm)
        self._count += 1
        if self._count % _MARK_EVERY == 0:
            name = f"m{self._count}"
            self._marks.append((name, self._sent))
            messages.append(self._message("mark", mark={"name": name}))
        return messages

    def clear(self) -> list[dict[str, Any]]:
        """Messages that make Twilio drop what it has buffered."""
        self._void.update(name for name, _ in self._marks)
        self._marks.clear()
        return [self._message("clear")]

    def unplayed(self) -> float:
        """Seconds sent that Twilio is known not to have played: a mark is overdue by so much.

        0 for a peer that returns no marks at all.
        """
        if not self._marks or not self._acknowledged:
            return 0.0
        due = self._marks[0][1]
        return max(0.0, (self._sent - due) / RATE - 0.25)

    def _start(self, message: dict[str, Any]) -> None:
        start = message["start"]
        form = start["mediaFormat"]
        if (form["encoding"], form["sampleRate"]) != ("audio/x-mulaw", RATE):
            raise PeerError("unsupported_media", f"only audio/x-mulaw at 8000 Hz is spoken here, not {form}")
        given = list((start.get("customParameters") or {}).items())[:_MOST_PARAMETERS]
        parameters = {str(k)[:_LONGEST]: str(v)[:_LONGEST] for k, v in given}
        self.started = Started(str(start["streamSid"]), str(start.get("callSid", "")), parameters)

    def _media(self, message: dict[str, Any]) -> list[FromClient]:
        if self.started is None or message["media"].get("track", "inbound") != "inbound":
            return []
        data = base64.b64decode(message["media"]["payload"], validate=True)
        return list(self._framer.push(self._resampler.push(g711.decode(data))))

    def _mark(self, name: str) -> None:
        if name in self._void:
            self._void.discard(name)
            return
        while self._marks:
            known, _ = self._marks.popleft()
            self._acknowledged = True
            if known == name:
                return

    def _message(self, event: str, **fields: Any) -> dict[str, Any]:
        stream = self.started.stream if self.started else ""
        return {"event": event, "streamSid": stream, **fields}


class TwilioLeg(NoTelephone):
    """A call's leg over an accepted WebSocket whose stream has started."""

    kind = "twilio"
    rate = RATE
    greets = True

    def __init__(self, socket: web.WebSocketResponse, stream: MediaStream) -> None:
        self._socket, self._stream = socket, stream

    @property
    def about(self) -> Mapping[str, str]:
        """See `CallLeg`: the call's id and the parameters of its TwiML, but for the key."""
        started = self._stream.started
        if started is None:
            return {}
        told = {name.lower(): value for name, value in started.parameters.items() if name != KEY}
        return {**told, "call": started.call}

    async def frames(self) -> AsyncIterator[FromClient]:
        """See `CallLeg`. A few broken messages are passed over, many end the call."""
        errors = 0
        while True:
            try:
                async with asyncio.timeout(MEDIA_PATIENCE):
                    message = await self._socket.receive()
            except TimeoutError:
                return
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                return
            try:
                entries = self._stream.receive(message.data)
            except PeerError:
                errors += 1
                if errors > _MOST_ERRORS:
                    raise
                continue
            for entry in entries:
                yield entry

    async def play(self, pcm: Pcm) -> None:
        """See `CallLeg`."""
        await self._send(self._stream.play(pcm))

    async def flush(self) -> float:
        """See `CallLeg`."""
        unplayed = self._stream.unplayed()
        await self._send(self._stream.clear())
        return unplayed

    async def notify(self, notice: Notice) -> None:
        """See `CallLeg`: a telephone has no words for it."""

    async def hangup(self, reason: str) -> None:
        """See `CallLeg`: closing the stream lets the call's TwiML go on."""
        if not self._socket.closed:
            await self._socket.close()

    async def _send(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            if self._socket.closed:
                return
            try:
                await self._socket.send_str(json.dumps(message))
            except ConnectionError:
                return


async def await_start(socket: web.WebSocketResponse) -> MediaStream:
    """Read until the stream starts. Raises `PeerError` if it doesn't in time."""
    stream = MediaStream()
    try:
        async with asyncio.timeout(START_PATIENCE):
            while stream.started is None:
                message = await socket.receive()
                if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    raise PeerError("closed", "the stream closed before it started")
                stream.receive(message.data)
    except TimeoutError as error:
        raise PeerError("timeout", "no start message within 10 s") from error
    return stream
