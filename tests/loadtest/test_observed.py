"""What is read from a server's metrics."""

import math

import pytest
from prometheus_client import CollectorRegistry, Histogram, Summary, generate_latest

from loadtest.observed import Observed, Scrape, Stage, Work, between, limit, parse


def reading(*seconds: float) -> Scrape:
    registry = CollectorRegistry()
    stage = Histogram(
        "halfsecond_stage_seconds", "x", ["stage", "transport"], buckets=(0.1, 0.2, 0.4), registry=registry
    )
    for i, value in enumerate(seconds):
        stage.labels("asr", ("twilio", "webrtc")[i % 2]).observe(value)
    return parse(generate_latest(registry).decode())


def test_a_step_is_the_difference_of_two_readings() -> None:
    seen = between(reading(0.05), reading(0.05, *[0.15] * 19, 0.35), 10.0)
    assert seen.stages["asr"].mean == pytest.approx((0.15 * 19 + 0.35) / 20)
    assert 0.1 < seen.stages["asr"].p95 <= 0.2
    assert math.isnan(seen.cores)


def test_a_stage_without_turns_in_a_step_is_left_out() -> None:
    assert between(reading(0.05), reading(0.05), 10.0).stages == {}


def test_other_servers_tell_nothing() -> None:
    seen = parse("# HELP x y\nx 1\n")
    assert (seen.stages, seen.buckets, seen.work, seen.waits) == ({}, {}, {}, {})
    assert math.isnan(seen.cpu)


def test_engine_work_is_told_by_class() -> None:
    registry = CollectorRegistry()
    for name, value in (("work", 0.2), ("work_wait", 0.05)):
        metric = Summary(f"halfsecond_{name}_seconds", "x", ["engine", "urgency"], registry=registry)
        metric.labels("asr", "partial").observe(value)
    seen = between(Scrape(), parse(generate_latest(registry).decode()), 1.0)
    assert seen.work == {"asr/partial": Work(1, pytest.approx(0.2), pytest.approx(0.05))}


def test_the_stage_that_grew_most_limits() -> None:
    few = Observed({"asr": Stage(0.1, 0.1), "llm": Stage(0.05, 0.1)})
    many = Observed({"asr": Stage(0.4, 0.5), "llm": Stage(0.1, 0.2), "tts": Stage(9, 9)})
    assert limit(few, many) == ("asr", pytest.approx(0.3))
    assert limit(Observed(), many) is None
