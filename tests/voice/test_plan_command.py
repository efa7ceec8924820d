"""`halfsecond plan`: tables and files for GPUs, and what it says when it can't."""

import json
from pathlib import Path

import pytest

from voice.cli import main


def test_a_gpu_with_its_models_cards_and_cost(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "plan.json"
    assert main(["plan", "--gpu", "rtx4090", "--calls", "10", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "10 calls on rtx4090" in out
    assert "published" in out and "simulated" in out
    (found,) = json.loads(file.read_text())
    assert found["cards"] == 1
    assert found["p95_ms"] <= 800
    assert found["calls_a_card_by_memory"] > 20


def test_a_card_that_is_too_small_is_said(capsys: pytest.CaptureFixture) -> None:
    flags = ["--asr", "large-v3", "--llm", "llama-3.1-8b-awq", "--tts", "middle"]
    assert main(["plan", "--gpu", "rtx3060", "--calls", "5", *flags]) == 0
    assert "smaller models" in capsys.readouterr().out


def test_nothing_to_plan_for_is_an_error(capsys: pytest.CaptureFixture) -> None:
    assert main(["plan"]) == 2
    assert "--here" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{}", '{"steps": []}'])
def test_a_file_that_is_no_result_is_named(tmp_path: Path, capsys: pytest.CaptureFixture, content: str) -> None:
    (tmp_path / "other.json").write_text(content)
    assert main(["plan", "--measured", str(tmp_path / "other.json")]) == 2
    assert "other.json" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--calls", "0"], ["--activity", "1.5"], ["--gpu", "abacus"]])
def test_wrong_figures_are_refused(flags: list[str], capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "--gpu", "rtx4090", *flags])
    capsys.readouterr()
