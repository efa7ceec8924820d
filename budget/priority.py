"""Lets the system's scheduler know what is bulk work: its threads give way to those that run for a moment.

A token takes 6 ms and somebody waits for each; a decode takes 100 ms. Where both want a core the short one
goes first, and the long one hardly notices. Being nicer needs no privilege.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TASKS = Path("/proc/self/task")


@contextmanager
def bulk_threads(nice: int) -> Iterator[None]:
    """Threads started inside, by whatever library, get this `nice` value (Linux; elsewhere nothing happens)."""
    before = _threads()
    yield
    for thread in _threads() - before:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, nice)


def _threads() -> set[int]:
    try:
        return {int(entry.name) for entry in _TASKS.iterdir()}
    except OSError:
        return set()
