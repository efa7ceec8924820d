"""What came from a client and waits for its call: bounded, and the oldest goes first."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from transport.requests import FromClient, HangUp

MOST = 100
"""Entries that may wait: 2 s of audio."""


class Backlog:
    """Filled from callbacks, emptied by the call."""

    def __init__(self) -> None:
        self._entries: deque[FromClient] = deque()
        self._filled = asyncio.Event()
        self._closed = False
        self.dropped = 0
        """Entries that the call was too slow for."""

    @property
    def closed(self) -> bool:
        """No more will come."""
        return self._closed

    def put(self, entry: FromClient) -> None:
        """Add an entry, dropping the oldest if too many wait."""
        if len(self._entries) >= MOST:
            self._entries.popleft()
            self.dropped += 1
        self._entries.append(entry)
        self._filled.set()

    def close(self, reason: str) -> None:
        """The client is gone; its last entry is `HangUp`. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._entries.append(HangUp(reason))
        self._filled.set()

    async def entries(self) -> AsyncIterator[FromClient]:
        """Everything, in order, until it is closed."""
        while not self._closed or self._entries:
            while self._entries:
                yield self._entries.popleft()
            self._filled.clear()
            if not self._closed:
                await self._filled.wait()
