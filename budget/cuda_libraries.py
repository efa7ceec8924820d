"""CUDA's libraries out of their Python packages, for runtimes that look for them by name only.

CTranslate2's wheel opens `libcublas.so.12` when it first computes on a card, and finds it in the system's
folders or where something has loaded it before. `nvidia-cublas-cu12` puts it into site-packages, which no
loader searches.
"""

import ctypes
import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CUBLAS = ("cublas/lib/libcublasLt.so.12", "cublas/lib/libcublas.so.12")
"""In this order: the second needs the first."""


def preload(libraries: tuple[str, ...] = CUBLAS) -> tuple[Path, ...]:
    """Load those that a Python package brought, for the whole process; returns which they were.

    Where none did, the system's own may do: the runtime says which library it misses.
    """
    return tuple(path for library in libraries for path in _found(library) if _loaded(path))


def _found(library: str) -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / library
        if path.is_file():
            yield path
            return


def _loaded(path: Path) -> bool:
    with suppress(OSError):
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        return True
    return False
