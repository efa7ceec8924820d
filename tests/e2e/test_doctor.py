"""`halfsecond doctor` on this machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from voice.config import Settings

pytestmark = pytest.mark.models


def doctor(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "voice.cli", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_doctor_measures_this_machine_and_keeps_the_result() -> None:
    done = doctor()
    assert done.returncode == 0, done.stderr
    for engine in ("asr", "llm", "tts"):
        assert f"{engine} (" in done.stdout
    assert "promised of" in done.stdout, "the ledger"
    assert (Settings().models.directory / "calibration.json").is_file()


def test_doctor_says_which_model_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    done = doctor("--models.directory", str(tmp_path))
    assert done.returncode == 1
    assert "halfsecond models pull whisper-base" in " ".join(done.stdout.split())


def test_a_plan_that_does_not_fit_is_refused_with_what_would() -> None:
    command = [sys.executable, "-m", "voice.cli", "serve", "--port", "0", "--call.max_calls", "9999"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "the engines don't fit into memory" in done.stderr
    assert "set call.max_calls to" in done.stderr
    assert "Traceback" not in done.stderr
