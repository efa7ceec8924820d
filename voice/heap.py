"""Keeps the C heap together: glibc gives each thread that allocates an arena of its own and keeps what it freed.

The engines' threads come and go with buffers of all sizes; over an hour of calls the arenas grew by a
third of the service's memory. Two arenas serve all threads about as fast. Other C libraries have no arenas.
"""

import ctypes

_M_ARENA_MAX = -8
"""glibc's malloc.h."""
_ARENAS = 2


def limit_arenas() -> None:
    """To be called before the first thread is started; does nothing where there is no glibc."""
    try:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
    except (OSError, AttributeError):
        return
