"""A call's inbox: the one place where everything that happens to it waits, in order."""

import asyncio
from collections import deque
from dataclasses import dataclass

from transport.requests import FromClient
from voice.answering import ReplyAudible, ReplyFinished, SentenceJudged
from voice.controls import Acted
from voice.hearing import Decoded
from voice.pause import SoundJudged


@dataclass(frozen=True)
class Tick:
    """A second has passed; `now` in loop seconds."""

    now: float


CallEvent = FromClient | Decoded | SoundJudged | SentenceJudged | ReplyAudible | ReplyFinished | Acted | Tick

LIMIT = 250
"""Entries from the client that may wait: 5 s of audio. Beyond it the leg is read no further."""


class Inbox:
    """Bounded for what comes from outside; the call's own tasks post a few events each and never wait."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._events: deque[CallEvent] = deque()
        self._limit = limit
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    def post(self, event: CallEvent) -> None:
        """Add an event of the call's own."""
        self._events.append(event)
        self._filled.set()

    async def put(self, event: FromClient) -> None:
        """Add what came from the client; waits while the inbox is full."""
        await self._drained.wait()
        self.post(event)
        if len(self._events) >= self._limit:
            self._drained.clear()

    async def get(self) -> CallEvent:
        """The oldest event; waits for one."""
        while not self._events:
            self._filled.clear()
            await self._filled.wait()
        event = self._events.popleft()
        if len(self._events) < self._limit:
            self._drained.set()
        return event

    async def tick(self, every: float = 1.0) -> None:
        """Post the time every second, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(every)
            self.post(Tick(loop.time()))
