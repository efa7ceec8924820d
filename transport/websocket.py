"""OpenAI Realtime over a WebSocket: the thin shell around `RealtimeSession`."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType

from aiohttp import WSMsgType, web

from transport.frame import Pcm
from transport.leg import NoTelephone, Notice
from transport.realtime import RealtimeSession
from transport.requests import FromClient

MOST_BYTES = 8 << 20
"""Largest message: two minutes of 24 kHz audio in base64."""
HEARTBEAT = 10.0
"""Seconds between pings; a peer that doesn't answer one is gone."""
_SEND_PATIENCE = 5.0


class WebSocketLeg(NoTelephone):
    """A call's leg over an accepted WebSocket."""

    kind = "websocket"
    greets = False
    about: Mapping[str, str] = MappingProxyType({})

    def __init__(self, socket: web.WebSocketResponse, session: RealtimeSession) -> None:
        self._socket, self._session = socket, session

    @property
    def rate(self) -> int:
        """See `CallLeg`: the session's output format says."""
        return self._session.output_rate

    async def frames(self) -> AsyncIterator[FromClient]:
        """See `CallLeg`."""
        async for message in self._socket:
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                return
            received = self._session.receive(message.data)
            for event in received.events:
                await self._send(event)
            for entry in received.entries:
                yield entry

    async def play(self, pcm: Pcm) -> None:
        """See `CallLeg`."""
        await self._send(self._session.audio(pcm))

    async def flush(self) -> float:
        """See `CallLeg`: the client drops its own buffer when it sees the truncation."""
        return 0.0

    async def notify(self, notice: Notice) -> None:
        """See `CallLeg`."""
        for event in self._session.send(notice):
            await self._send(event)

    async def hangup(self, reason: str) -> None:
        """See `CallLeg`."""
        if not self._socket.closed:
            await self._socket.close(message=reason.encode()[:120])

    async def _send(self, event: dict[str, object]) -> None:
        """Send one event. A client that reads nothing for seconds is closed, so that it can't hold the call up."""
        if self._socket.closed:
            return
        try:
            async with asyncio.timeout(_SEND_PATIENCE):
                await self._socket.send_str(json.dumps(event, ensure_ascii=False))
        except (TimeoutError, ConnectionError):
            await self._socket.close(code=1008, message=b"client reads too slowly")
