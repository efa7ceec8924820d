"""Keeps the C heap in few pieces: glibc gives each thread an arena of its own, and none gives memory back.

With a dozen engine threads that was 60 MB more, and a different number at each start, so that
nothing could be reserved to a tenth.
"""

import ctypes

_M_ARENA_MAX = -8
"""glibc's `mallopt` parameter (malloc.h)."""


def few_arenas(count: int) -> bool:
    """At most so many arenas from now on; False where the C library knows no such thing."""
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, count))
    except (OSError, AttributeError, TypeError):
        return False


def trim() -> bool:
    """Give what is free in the heap back to the system; False where the C library can't, or nothing was free.

    Freed memory between pieces in use stays with the process otherwise (malloc_trim(3)). Takes some milliseconds.
    """
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError):
        return False
