"""A caller's line over a WebSocket: what Twilio Media Streams and OpenAI Realtime have in common."""

import contextlib
import json
from abc import abstractmethod
from typing import Any

import websockets

from loadtest.address import as_websocket
from loadtest.line import PATIENCE, Broken, Line, Refused


class SocketLine(Line):
    """JSON messages both ways at `path`."""

    path: str

    async def open(self) -> None:
        """See `Line`."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            self._socket = await websockets.connect(
                as_websocket(self.server) + self.path,
                max_size=None,
                open_timeout=PATIENCE,
                compression=None,
                additional_headers=headers,
            )
            await self.greet()
        except websockets.InvalidStatus as error:
            response = error.response
            after = response.headers.get("Retry-After", "")
            raise Refused(f"HTTP {response.status_code}", status=response.status_code, retry_after=after) from error
        except (OSError, websockets.InvalidHandshake, websockets.InvalidURI, websockets.ConnectionClosed) as error:
            raise Refused(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """See `Line`."""
        if hasattr(self, "_socket"):
            with contextlib.suppress(websockets.ConnectionClosed, Broken):
                await self.part()
            await self._socket.close()

    async def listen(self) -> None:
        """See `Line`."""
        async for message in self._socket:
            await self.take(json.loads(message))

    async def tell(self, message: dict[str, Any]) -> None:
        """Send a message; raises `Broken`."""
        try:
            await self._socket.send(json.dumps(message))
        except websockets.ConnectionClosed as error:
            raise Broken(str(error)) from error

    async def greet(self) -> None:
        """Say what the protocol wants to be said first."""

    async def part(self) -> None:
        """Say what the protocol wants to be said last."""

    @abstractmethod
    async def take(self, message: dict[str, Any]) -> None:
        """Take a message of the server."""
