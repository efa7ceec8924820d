"""What the server says of itself at `/metrics` (Prometheus): the time of its stages, its processor and memory.

Read before and after a step; the difference is the step's. Only halfsecond's own names are known;
of another server nothing is known, and nothing is said.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from loadtest.address import as_http

_STAGE = "halfsecond_stage_seconds"
_WORK, _WAIT = "halfsecond_work_seconds", "halfsecond_work_wait_seconds"
_CPU, _MEMORY = "halfsecond_cpu_seconds_total", "halfsecond_resident_bytes"
_PATIENCE = 5.0


@dataclass(frozen=True)
class Scrape:
    """One reading: counts and sums of each stage's histogram, and what the processes use."""

    stages: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Stage to number of turns and seconds spent, since the server began."""
    buckets: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    """Stage to upper bound (seconds) to number of turns not above it."""
    work: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Engine/class to number of pieces of work done and seconds that they took."""
    waits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Engine/class to number of pieces and seconds that they waited."""
    cpu: float = math.nan
    resident: float = math.nan


@dataclass(frozen=True)
class Work:
    """What an engine did of one class in a step: pieces, mean seconds that one took, and waited."""

    pieces: float
    took: float
    waited: float


@dataclass(frozen=True)
class Stage:
    """How long a stage took in a step (seconds)."""

    mean: float
    p95: float


@dataclass(frozen=True)
class Observed:
    """A step as the server saw it; empty where it tells nothing."""

    stages: Mapping[str, Stage] = field(default_factory=dict)
    work: Mapping[str, Work] = field(default_factory=dict)
    cores: float = math.nan
    """Processor cores busy, on average."""
    resident: float = math.nan
    """Bytes of memory in use at the end."""

    def plain(self) -> dict[str, Any]:
        """As JSON, in milliseconds and megabytes."""
        return {
            "stages_ms": {
                name: {"mean": round(stage.mean * 1000, 1), "p95": round(stage.p95 * 1000, 1)}
                for name, stage in self.stages.items()
            },
            "work": {
                name: {
                    "pieces": round(work.pieces),
                    "took_ms": round(work.took * 1000, 1),
                    "waited_ms": round(work.waited * 1000, 1),
                }
                for name, work in self.work.items()
            },
            "cores": None if math.isnan(self.cores) else round(self.cores, 2),
            "resident_mb": None if math.isnan(self.resident) else round(self.resident / 1e6),
        }


def parse(text: str) -> Scrape:
    """A reading from the exposition format; raises `ValueError` if it is none."""
    buckets: dict[str, dict[float, float]] = {}
    totals: dict[str, dict[str, tuple[float, float]]] = {_STAGE: {}, _WORK: {}, _WAIT: {}}
    cpu = resident = math.nan
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name, _, part = sample.name.rpartition("_")
            if name in totals and part in ("count", "sum"):
                key = sample.labels.get("stage") or f"{sample.labels['engine']}/{sample.labels['urgency']}"
                count, seconds = totals[name].get(key, (0.0, 0.0))
                more = (sample.value, 0.0) if part == "count" else (0.0, sample.value)
                totals[name][key] = (count + more[0], seconds + more[1])
            elif sample.name == f"{_STAGE}_bucket":
                bounds = buckets.setdefault(sample.labels["stage"], {})
                bound = float(sample.labels["le"])
                bounds[bound] = bounds.get(bound, 0.0) + sample.value
            elif sample.name == _CPU:
                cpu = sample.value
            elif sample.name == _MEMORY:
                resident = sample.value
    return Scrape(totals[_STAGE], buckets, totals[_WORK], totals[_WAIT], cpu, resident)


async def scrape(server: str, key: str = "") -> Scrape:
    """Read the metrics of `server` (ws:// or http://); an empty reading if it has none."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        timeout = aiohttp.ClientTimeout(total=_PATIENCE)
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.get(f"{as_http(server)}/metrics", headers=headers) as answer,
        ):
            return parse(await answer.text()) if answer.ok else Scrape()
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return Scrape()


def between(before: Scrape, after: Scrape, seconds: float) -> Observed:
    """What happened in the `seconds` between two readings."""
    stages = {
        name: Stage(mean, _percentile(before.buckets.get(name, {}), after.buckets[name], 0.95))
        for name, (_, mean) in _means(before.stages, after.stages).items()
    }
    waits = _means(before.waits, after.waits)
    work = {
        name: Work(pieces, took, waits[name][1] if name in waits else 0.0)
        for name, (pieces, took) in _means(before.work, after.work).items()
    }
    return Observed(stages, work, (after.cpu - before.cpu) / seconds, after.resident)


def _means(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """Number and mean of what was counted in between; what did not happen is left out."""
    made = {}
    for name, (count, total) in after.items():
        earlier, spent = before.get(name, (0.0, 0.0))
        if count > earlier:
            made[name] = (count - earlier, (total - spent) / (count - earlier))
    return made


def _percentile(before: Mapping[float, float], after: Mapping[float, float], share: float) -> float:
    """A percentile from cumulative buckets, by a straight line inside the bucket, as Prometheus does it."""
    counts = [(bound, after[bound] - before.get(bound, 0.0)) for bound in sorted(after)]
    wanted = share * counts[-1][1]
    below, least = 0.0, 0.0
    for bound, count in counts:
        if count >= wanted:
            if math.isinf(bound):
                return least
            return least + (bound - least) * (wanted - below) / max(1e-9, count - below)
        below, least = count, bound
    return least


def limit(few: Observed, many: Observed) -> tuple[str, float] | None:
    """The stage whose mean grew most from few calls to many, and by how many seconds; None if nothing is known."""
    grown = {name: stage.mean - few.stages[name].mean for name, stage in many.stages.items() if name in few.stages}
    if not grown:
        return None
    name = max(grown, key=lambda stage: grown[stage])
    return name, grown[name]
