"""What one call's session reads before anybody waits for it, and when a reading is worth its time."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

import httpx
import structlog

from budget.scheduler import QueueFull
from budget.work import Urgency

log = structlog.get_logger(__name__)

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """What one session has read before anybody waits for it: one request at a time, the same one only once."""

    def __init__(self) -> None:
        self._running: Future[T] | None = None
        self._key: Hashable = None
        self._words = 0

    def forget(self) -> None:
        """What was read is no longer in the cache."""
        self._key = None

    async def read(
        self, key: Hashable, words: int, start: Callable[[Urgency], "Future[T]"], *, urgent: bool, least: int = 0
    ) -> T | None:
        """The result of the request `key`, started unless it was the last one; None if it isn't worth it.

        Only what is `urgent` is started beside another, or with less than `least` new `words`.
        """
        busy = self._running is not None and not self._running.done()
        few = self._key is not None and 0 <= words - self._words < least
        if not urgent and (busy or few):
            return None
        try:
            if self._running is None or self._running.cancelled() or key != self._key:
                self._running = start(Urgency.FIRST_AUDIO if urgent else Urgency.SPECULATION)
                self._key, self._words = key, words
            return await asyncio.shield(asyncio.wrap_future(self._running))
        except (QueueFull, RuntimeError, ValueError, httpx.HTTPError) as error:
            self._key = None
            log.debug("not read ahead", error=str(error))
            return None
