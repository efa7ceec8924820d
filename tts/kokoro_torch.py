"""Kokoro's model by PyTorch, for a card: the weights in full precision, in a process of its own.

The process (`kokoro_worker.py`) is needed since the `kokoro` package brings a GPL library along; it also
makes what the model takes of the card one process's memory, which NVML tells.
"""

import importlib.util
from pathlib import Path

import numpy as np

from budget.errors import ModelError
from budget.memory import MB, Reservation
from budget.work import Work
from tts.kokoro import Style
from tts.speech import Pcm
from tts.worker import WorkerProcess

WEIGHTS = "kokoro-v1_0.pth"
_WORKER = Path(__file__).with_name("kokoro_worker.py")
_PATIENCE = 90.0
"""Seconds: PyTorch takes 5-10 to load, and a card's first clause loads its kernels."""
_CUDA = 500 * MB
"""What PyTorch takes of a card before any tensor is there (300-600 MB are usual)."""
_WORK = 700 * MB
"""What 30 s of sound take while they are made, and cuDNN beside them; on a processor with PyTorch's programs."""


def reservation(folder: Path, *, device: str) -> Reservation:
    """What the worker will hold (estimated: no card was at hand to measure it)."""
    work = _WORK if device == "cpu" else _CUDA + _WORK
    return Reservation("kokoro", device, (folder / WEIGHTS).stat().st_size, work)


class TorchKokoro:
    """See `KokoroModel`. Raises `ModelError` if the files or PyTorch are missing."""

    def __init__(self, folder: Path, voices: Path, *, device: str, threads: int = 1, share: Work | None = None) -> None:
        if not (folder / WEIGHTS).is_file():
            raise ModelError(f"no Kokoro weights at {folder / WEIGHTS}; run `halfsecond models pull kokoro-torch`")
        for package in ("torch", "kokoro"):
            if importlib.util.find_spec(package) is None:
                raise ModelError(f"tts.runtime torch needs the package {package}: run `make gpu`")
        of_card = (folder / WEIGHTS).stat().st_size + _WORK
        arguments = ["--folder", str(folder), "--voices", str(voices), "--device", device]
        arguments += ["--memory", str(of_card), "--threads", str(threads)]
        self._process = WorkerProcess("Kokoro", _WORKER, arguments, patience=_PATIENCE, share=share)

    async def speak(self, tokens: list[int], style: Style, deadline: float) -> Pcm:
        """See `KokoroModel`."""
        request = {"tokens": tokens, "voice": style.name, "speed": style.speed}
        return np.concatenate([pcm async for pcm in self._process.spoken(request, deadline)])

    async def close(self) -> None:
        """See `KokoroModel`."""
        await self._process.close()
