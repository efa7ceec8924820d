"""What the service's processes use, for `/metrics`: its own and the voices', which are programs beside it (Linux)."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from budget.machine_memory import resident
from budget.processors import processor_seconds


class ProcessCollector(Collector):
    """Reads /proc when asked; tells nothing where there is none."""

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client`."""
        if memory := resident():
            seconds = processor_seconds()
            yield CounterMetricFamily("halfsecond_cpu_seconds", "Processor time of the service's processes.", seconds)
            yield GaugeMetricFamily("halfsecond_resident_bytes", "Memory of the service's processes.", memory)
