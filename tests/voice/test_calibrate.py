"""Thread counts by measurement: what is worth it, what is kept, what an operator's own number does."""

from pathlib import Path

import pytest

from voice.calibrate import Calibration, Timing, candidates, choose, load, machine, save, with_threads
from voice.config import AsrConfig, LlmConfig, ModelsConfig, Settings


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
