"""How much memory this process may have and does have: cgroup limits, /proc, and NVML for cards (Linux).

What is told here are bytes. Where a figure can't be had it is None: the caller says so.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from budget.cgroups import LISTING, ROOT, folders
from budget.memory import Device

Told = TypeVar("Told")
_PROC = Path("/proc")
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


def cgroup_limit(root: Path = ROOT, listing: Path = LISTING) -> int | None:
    """The smallest memory limit on the way from this process's cgroup to the root; None if there is none."""
    limits = []
    for path in folders("memory", root, listing):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                limits.append(int((path / name).read_text()))
    found = min(limits, default=_NO_LIMIT)
    return found if found < _NO_LIMIT else None


def taken(device: str = "cpu") -> int | None:
    """Bytes that this process and all that it started hold on a device; None if that can't be told.

    On a card that is memory by NVML, which counts the runtime's own (a CUDA context takes 300-600 MB).
    """
    return resident() if device == "cpu" else _on_card(int(device.rpartition(":")[2] or 0), _held)


@dataclass(frozen=True)
class Card:
    """A card's memory in bytes, all of it and what is free now."""

    total: int
    free: int


def card(index: int = 0) -> Card | None:
    """A CUDA card through NVML; None without NVML (`nvidia-ml-py`) or without the card."""
    return _on_card(index, _card)


def card_memory(index: int = 0, *, server: int = 0) -> Device | None:
    """What may be promised of a CUDA card; None if there is none (`card`).

    That is what is free now, and what a language model's server that runs already holds, up to `server` bytes.
    """
    found = card(index)
    if found is None:
        return None
    return Device(f"cuda:{index}", found.free + min(server, found.total - found.free))


def _card(nvml: Any, handle: Any) -> Card:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Card(int(memory.total), int(memory.free))


def _held(nvml: Any, card: Any) -> int | None:
    mine = set(family(os.getpid()))
    held = [one.usedGpuMemory for one in nvml.nvmlDeviceGetComputeRunningProcesses(card) if one.pid in mine]
    return None if None in held else sum(held)  # in a container NVML may not tell whose memory it is


def _on_card(index: int, read: Callable[[Any, Any], Told | None]) -> Told | None:
    """What NVML tells of a card; None without NVML, or if the card is not (or no longer) there."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            return read(pynvml, pynvml.nvmlDeviceGetHandleByIndex(index))
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
