"""What a CUDA card holds, as NVML tells it; a stand-in for NVML, since the failures can't be made on a real card."""

import os
import sys
from types import SimpleNamespace

import pytest

from budget.machine_memory import card_memory, taken


class NVMLError(Exception):
    """As pynvml raises it."""


class Nvml:
    """Stands where `pynvml` is imported."""

    NVMLError = NVMLError

    def __init__(self, processes: list[tuple[int, int | None]], *, lost: bool = False) -> None:
        self.processes, self.lost, self.open = processes, lost, 0

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own names
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if self.lost or index != 0:
            raise NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetMemoryInfo(self, card: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=24_000_000_000, free=20_000_000_000)

    def nvmlDeviceGetComputeRunningProcesses(self, card: int) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.processes]


def use(monkeypatch: pytest.MonkeyPatch, nvml: Nvml | None) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]


def test_only_our_own_processes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml([(os.getpid(), 700), (1 << 22, 5_000)])
    use(monkeypatch, nvml)
    assert taken("cuda:0") == 700
    device = card_memory()
    assert device is not None
    assert (device.name, device.total) == ("cuda:0", 20_000_000_000)
    assert nvml.open == 0


def test_a_card_that_is_lost_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml([(os.getpid(), 700)], lost=True)
    use(monkeypatch, nvml)
    assert taken("cuda:0") is None
    assert card_memory() is None
    assert nvml.open == 0


def test_memory_that_nvml_can_t_tell_apart_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Nvml([(os.getpid(), None)]))
    assert taken("cuda:0") is None


def test_without_nvml_there_is_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, None)
    assert taken("cuda:0") is None
    assert card_memory() is None
    assert (taken() or 0) > 1_000_000


def test_what_the_language_models_server_holds_already_is_promised_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Nvml([]))
    totals = [getattr(card_memory(server=int(held)), "total", None) for held in (0, 3e9, 10e9)]
    assert totals == [20_000_000_000, 23_000_000_000, 24_000_000_000]
