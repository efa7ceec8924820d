"""How many processors this process may use, and how many others on the machine leave it (Linux; elsewhere: all)."""

import os
from contextlib import suppress
from pathlib import Path

from budget.cgroups import LISTING, ROOT, folders
from budget.machine_memory import family

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE, _WAITS, _COUNTED = 3, 4, 8
"""Places in a line of /proc/stat behind its name (proc(5)): idle, waiting for disks; guests count as user time."""
_TIMES = slice(11, 15)
"""Of /proc/PID/stat behind the name in brackets: a process's user and system time, and that of its ended children."""
_LEAST = 0.25
"""Cores that are counted on, however much others take: the system gives each its share."""


def allowed() -> frozenset[int]:
    """The processors that this process may run on, by number."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def cores() -> int:
    """Processors that this process may use at once: a container's quota may be less than it sees."""
    quota = cgroup_quota()
    return len(allowed()) if quota is None else max(1, min(len(allowed()), round(quota)))


def cgroup_quota(root: Path = ROOT, listing: Path = LISTING) -> float | None:
    """The smallest quota (cores) on the way from this process's cgroup to the root; None if there is none."""
    found: list[float] = []
    for path in folders("cpu", root, listing):
        with suppress(OSError, ValueError):
            quota, period = (path / "cpu.max").read_text().split()
            found.append(int(quota) / int(period))  # "max" is no number: no limit
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota = (path / "cpu.cfs_quota_us").read_text()
            period = (path / "cpu.cfs_period_us").read_text()
            found.append(int(quota) / int(period))  # v1 writes -1 where there is none
    return min((cores for cores in found if cores > 0), default=None)


def processor_seconds(pid: int | None = None) -> float:
    """Processor time that a process (this one) and all that it started used, if need be long ago; 0 without /proc."""
    total = 0
    for one in family(os.getpid() if pid is None else pid):
        with suppress(OSError, ValueError, IndexError):
            stat = (_PROC / str(one) / "stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, stat[_TIMES]))
    return total / _TICKS


class CoreMeter:
    """Tells how many cores others left to this process since it was asked last."""

    def __init__(self, stat: Path = _PROC / "stat") -> None:
        self._stat = stat
        self._busy, self._own = self._read(), processor_seconds()
        self._at: float | None = None

    def left(self, now: float) -> float:
        """Cores, between a quarter and all that may be used. `now`: seconds on any steady clock."""
        busy, own = self._read(), processor_seconds()
        others = max(0.0, busy - self._busy - max(0.0, own - self._own))
        seconds = 0.0 if self._at is None else now - self._at
        self._busy, self._own, self._at = busy, own, now
        if seconds <= 0:
            return float(cores())
        return max(_LEAST, min(float(cores()), len(allowed()) - others / seconds))

    def _read(self) -> float:
        """Seconds that the processors which may be used have worked, for anybody."""
        names, ticks = {f"cpu{number}" for number in allowed()}, 0
        with suppress(OSError, ValueError):
            for line in self._stat.read_text().splitlines():
                name, *times = line.split()
                if name in names:
                    counted = [int(time) for time in times[:_COUNTED]]
                    ticks += sum(counted) - counted[_IDLE] - counted[_WAITS]
        return ticks / _TICKS
