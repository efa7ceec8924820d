"""Thread counts by measurement: what is worth it, what is kept, what an operator's own number does."""

from pathlib import Path

import pytest

from voice.calibrate import (
    Calibration,
    Timing,
    best_time,
    candidates,
    choose,
    cores_used,
    load,
    machine,
    save,
    with_threads,
)
from voice.config import AsrConfig, LlmConfig, ModelsConfig, Settings, TtsConfig


def timings(*seconds: float) -> list[Timing]:
    return [Timing("asr", 2**i, s) for i, s in enumerate(seconds)]


@pytest.mark.parametrize(
    ("seconds", "threads"),
    [((0.2, 0.19), 1), ((0.2, 0.3), 1), ((0.2, 0.12), 2), ((0.2, 0.12, 0.11), 2), ((0.4, 0.2, 0.1, 0.06), 8), ((), 1)],
)
def test_more_threads_have_to_pay(seconds: tuple[float, ...], threads: int) -> None:
    assert choose(timings(*seconds)) == threads


def test_no_more_threads_are_tried_than_there_are_cores() -> None:
    assert [candidates(n) for n in (1, 2, 3, 16)] == [(1,), (1, 2), (1, 2), (1, 2, 4, 8)]


def test_a_measurement_is_kept_for_this_machine_and_these_models(tmp_path: Path) -> None:
    settings = Settings(models=ModelsConfig(directory=tmp_path))
    known = Calibration(machine(settings), tuple(timings(0.2, 0.1)))
    assert load(settings) is None
    save(known, settings)
    assert load(settings) == known
    assert load(settings.model_copy(update={"asr": AsrConfig(model="whisper-tiny.en")})) is None
    (tmp_path / "calibration.json").write_text("{")
    assert load(settings) is None


def test_measured_counts_fill_in_where_the_operator_named_none(tmp_path: Path) -> None:
    settings = Settings(models=ModelsConfig(directory=tmp_path), llm=LlmConfig(threads=3))
    used = with_threads(settings, Calibration("", tuple(timings(0.2, 0.1))))
    assert (used.asr.threads, used.llm.threads, used.tts.threads) == (2, 3, 1)


def test_threads_keep_as_many_cores_busy_as_they_save_time(tmp_path: Path) -> None:
    settings = Settings(models=ModelsConfig(directory=tmp_path), asr=AsrConfig(threads=2), llm=LlmConfig(threads=3))
    settings = settings.model_copy(update={"tts": TtsConfig(threads=1)})
    save(Calibration(machine(settings), tuple(timings(0.3, 0.2))), settings)
    used = cores_used(settings)
    assert used.asr == pytest.approx(1.5)
    assert (used.llm, used.tts) == (3.0, 1.0), "what was not measured is taken to use all"


async def test_short_work_is_run_more_often_than_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("voice.calibrate.perf_counter", lambda: clock[0])

    async def runs(seconds: list[float]) -> tuple[float, int]:
        done = 0

        async def work() -> None:
            nonlocal done
            clock[0] += seconds[min(done, len(seconds) - 1)]
            done += 1

        return round(await best_time(work), 3), done

    assert await runs([2.0, 1.5, 1.8]) == (1.5, 3)
    assert await runs([0.09, 0.05, 0.09, 0.04, 0.06]) == (0.04, 10)
    assert await runs([0.001]) == (0.001, 12)


def test_trying_another_model_does_not_lose_the_old_ones_threads(tmp_path: Path) -> None:
    settings = Settings(models=ModelsConfig(directory=tmp_path))
    known = Calibration(machine(settings), tuple(timings(0.2, 0.1)))
    save(known, settings)
    for i in range(7):
        other = settings.model_copy(update={"asr": AsrConfig(model=f"whisper-{i}")})
        save(Calibration(machine(other), tuple(timings(0.3))), other)
    assert load(settings) == known
    one_more = settings.model_copy(update={"asr": AsrConfig(model="whisper-9")})
    save(Calibration(machine(one_more), tuple(timings(0.3))), one_more)
    assert load(settings) is None, "eight are kept"
