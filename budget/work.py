"""All engine work of the process: how much of it runs now, and what each piece took.

Engines share the cores. Work on a guess (partial transcripts, prompts read ahead) is worth it only while
a core is free: everything else has a caller who waits.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from time import perf_counter

from budget import processors


class Urgency(IntEnum):
    """Classes of engine work; a smaller number goes first."""

    FIRST_AUDIO = 0
    CONTINUATION = 1
    PARTIAL = 2
    SPECULATION = 3


WorkSeen = Callable[[str, Urgency, float, float], None]
"""Told of each piece of work done: engine, class, seconds that it waited, seconds that it took. From any thread."""


class Work:
    """One for the process, handed to every engine; may be used from any thread."""

    def __init__(self, seen: WorkSeen | None = None, *, cores: int = 0) -> None:
        self._cores = cores or processors.cores()
        self._seen = seen
        self._lock = threading.Lock()
        self._running = 0

    @property
    def room(self) -> bool:
        """Whether a core is free."""
        return self._running < self._cores

    @property
    def idle(self) -> bool:
        """Whether no engine works."""
        return self._running == 0

    def quiet(self, own: int = 0) -> bool:
        """Whether, beside `own` pieces of who asks, most cores are free: time for what nobody waits for."""
        return self._running - own < max(1, self._cores // 2)

    @contextmanager
    def piece(self, engine: str, urgency: Urgency, waited: float = 0.0) -> Iterator[None]:
        """One piece of work runs; `waited` seconds for its turn. Speculation is short and stands in nobody's way."""
        began = perf_counter()
        with nullcontext() if urgency is Urgency.SPECULATION else self.running():
            yield
        self.done(engine, urgency, waited, perf_counter() - began)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Something runs whose time is told apart."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def done(self, engine: str, urgency: Urgency, waited: float, took: float) -> None:
        """A piece is done (seconds)."""
        if self._seen is not None:
            self._seen(engine, urgency, waited, took)
