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
    assert (Settings().models.directory / "calibration.json").is_file()


def test_doctor_says_which_model_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    done = doctor("--models.directory", str(tmp_path))
    assert done.returncode == 1
    assert "halfsecond models pull whisper-base" in " ".join(done.stdout.split())
