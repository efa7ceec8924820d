"""How many processors there are for us: affinity, a container's quota, and what others leave."""

import os
from pathlib import Path

import pytest

from budget import processors
from budget.processors import CoreMeter, allowed, cgroup_quota, cores, processor_seconds


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"box/cpu.max": "100000 100000", "cpu.max": "300000 100000"}, 1.0),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu.max": "nonsense"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "0"}, None),
        ({}, None),
    ],
)
def test_a_containers_quota_is_found(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    listing = tmp_path / "listing"
    listing.write_text("0::/box\n")
    assert cgroup_quota(tmp_path, listing) == quota


def test_a_quota_bounds_the_cores_and_one_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "allowed", lambda: frozenset(range(8)))
    for quota, expected in ((None, 8), (2.0, 2), (64.0, 8), (0.3, 1)):
        monkeypatch.setattr(processors, "cgroup_quota", lambda quota=quota: quota)
        assert cores() == expected


def test_work_shows_in_the_processor_time_of_a_process() -> None:
    before = processor_seconds()
    while processor_seconds() < before + 0.05:
        sum(range(10_000))
    assert processor_seconds(os.getpid()) > before


class Stat:
    """A /proc/stat whose allowed processors have worked so long."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def write(self, seconds: float, *, waits: float = 0.0) -> Path:
        ticks = [round(value * os.sysconf("SC_CLK_TCK") / len(allowed())) for value in (seconds, waits)]
        lines = [f"cpu{number} {ticks[0]} 0 0 1000 {ticks[1]} 0 0 0 77 0" for number in allowed()]
        self.file.write_text("\n".join(["cpu  99 99 99 99", *lines, "cpu4711 99999 0 0 0 0 0 0 0 0 0", "intr 5"]))
        return self.file


def test_what_others_take_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, stat = [100.0], Stat(tmp_path / "stat")
    monkeypatch.setattr(processors, "processor_seconds", lambda: own[0])
    monkeypatch.setattr(processors, "cores", lambda: len(allowed()))
    meter = CoreMeter(stat.write(1000.0))
    assert meter.left(0.0) == len(allowed()), "nothing was seen yet"
    own[0] += 5.0
    stat.write(1005.0, waits=30.0)
    assert meter.left(10.0) == pytest.approx(len(allowed()), abs=0.01), "all of it was ours"
    own[0] += 2.0
    stat.write(1011.0)
    assert meter.left(20.0) == pytest.approx(len(allowed()) - 0.4, abs=0.01)
    stat.write(1011.0 + 10.0 * len(allowed()))
    assert meter.left(30.0) == 0.25, "the system gives everybody a share"
    assert meter.left(30.0) == len(allowed()), "no time has passed"
