"""One resource, many who wait for it: the earliest deadline goes first, arrival decides among equals."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class DeadlineLock:
    """Owned by one event loop. Whoever holds it is never interrupted; whoever is cancelled while waiting is skipped."""

    def __init__(self) -> None:
        self._held = False
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def hold(self, deadline: float) -> AsyncIterator[None]:
        """Wait for the turn of `deadline` (loop seconds), then hold the lock."""
        if self._held:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (deadline, next(self._order), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                raise
        self._held = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """To the next who still waits: it holds the lock from now on, so that nobody slips in before it wakes."""
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._held = False
