"""What the service's processes use, for `/metrics`: its own and the voices', which are programs beside it (Linux)."""

import os
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from budget.machine_memory import family, resident

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_USER_TIME, _SYSTEM_TIME = 11, 12
"""Places in /proc/PID/stat behind the name in brackets (proc(5): fields 14 and 15)."""


class ProcessCollector(Collector):
    """Reads /proc when asked; tells nothing where there is none."""

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client`."""
        cpu = 0.0
        for pid in family(os.getpid()):
            try:
                times = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
                cpu += (int(times[_USER_TIME]) + int(times[_SYSTEM_TIME])) / _TICKS
            except (OSError, ValueError, IndexError):
                continue
        if memory := resident():
            yield CounterMetricFamily("halfsecond_cpu_seconds", "Processor time of the service's processes.", cpu)
            yield GaugeMetricFamily("halfsecond_resident_bytes", "Memory of the service's processes.", memory)
