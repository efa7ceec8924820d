"""How much memory this process may have and does have: cgroup limits, /proc, and NVML for cards (Linux).

What is told here are bytes. Where a figure can't be had it is None: the caller says so.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from budget.memory import Device

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NO_LIMIT = 1 << 60
"""cgroup v1 writes a number near 2^63 where there is no limit."""


def family(pid: int) -> Iterator[int]:
    """A process and all that it started."""
    yield pid
    for listing in (_PROC / str(pid) / "task").glob("*/children"):
        try:
            children = listing.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))


def resident(pid: int | None = None) -> int:
    """Resident bytes of a process (this one) and all that it started; 0 where there is no /proc."""
    pages = 0
    for one in family(os.getpid() if pid is None else pid):
        with suppress(OSError, ValueError, IndexError):
            pages += int((_PROC / str(one) / "statm").read_text().split()[1])
    return pages * _PAGE


def processor_memory() -> Device:
    """The memory beside the processor: what is available now and what this process has, within its cgroup's limit."""
    mine = resident()
    known = {}
    with suppress(OSError, ValueError):
        for line in (_PROC / "meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            known[name] = int(rest.split()[0]) * 1024
    free = known.get("MemAvailable", known.get("MemTotal", _NO_LIMIT))
    limit = cgroup_limit()
    return Device("cpu", min(free + mine, limit if limit is not None else _NO_LIMIT))


def cgroup_limit(root: Path = _CGROUP, listing: Path = _PROC / "self" / "cgroup") -> int | None:
    """The smallest memory limit on the way from this process's cgroup to the root; None if there is none."""
    limits = []
    for path in _paths(root, listing):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                limits.append(int((path / name).read_text()))
    found = min(limits, default=_NO_LIMIT)
    return found if found < _NO_LIMIT else None


def _paths(root: Path, listing: Path) -> Iterator[Path]:
    """The cgroups that this process is in, each with those above it (v2, and v1's memory controller)."""
    with suppress(OSError):
        for line in listing.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            base = root / controllers if controllers else root
            inside = base / path.lstrip("/")
            yield from (inside, *(parent for parent in inside.parents if parent.is_relative_to(base)))
    yield root
    yield root / "memory"


def card_memory(index: int = 0) -> Device | None:
    """A CUDA card through NVML: what is free of it now; None without NVML (`nvidia-ml-py`) or without the card."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            return Device(f"cuda:{index}", int(pynvml.nvmlDeviceGetMemoryInfo(handle).free))
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
