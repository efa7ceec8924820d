"""Piper in its own process: it is GPL, so it is never imported here.

The worker (`piper_worker.py`) speaks with a voice, or without one turns text into phonemes for others.
"""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

from budget.errors import ModelError
from budget.memory import MB, Reservation
from budget.work import Work
from tts.speech import Pcm, Voice
from tts.worker import WorkerProcess

_WORKER = Path(__file__).with_name("piper_worker.py")


_CUDA = 500 * MB
"""What the runtime takes of a card before any model is there."""


def reservation(model: Path, *, device: str = "cpu") -> Reservation:
    """What the worker will hold: its programs, the voice, and what two clauses of 100 characters need at once.

    Measured with a voice of 63 MB on a processor: 206 MB warm, 312-361 MB with those.
    """
    stored = model.stat().st_size
    if device == "cpu":
        return Reservation("piper", device, stored + 80 * MB, _work(model))
    return Reservation("piper", device, stored, _CUDA + _work(model))


def _work(model: Path) -> int:
    return int(3.6 * model.stat().st_size)


def phonemizer() -> WorkerProcess:
    """The worker without a voice."""
    return WorkerProcess("Piper", _WORKER, ["--threads", "1"])


class PiperSynthesizer:
    """One Piper voice. Raises `ModelError` if its files are missing."""

    def __init__(self, model: Path, *, threads: int = 2, device: str = "cpu", share: Work | None = None) -> None:
        config = Path(f"{model}.json")
        for file in (model, config):
            if not file.is_file():
                raise ModelError(f"no Piper voice at {file}; run `halfsecond models pull`")
        memory = model.stat().st_size + _work(model)
        arguments = ["--threads", str(threads), "--model", str(model), "--device", device, "--memory", str(memory)]
        self._process = WorkerProcess("Piper", _WORKER, arguments, share=share)
        described = json.loads(config.read_text())
        self.rate = int(described["audio"]["sample_rate"])
        speakers = tuple(described.get("speaker_id_map") or ())
        self._voices = speakers or (model.name.removesuffix(".onnx"),)

    @property
    def process(self) -> WorkerProcess:
        """The worker, for health checks and failure tests."""
        return self._process

    def voices(self) -> tuple[str, ...]:
        """See `Synthesizer`."""
        return self._voices

    def speak(self, text: str, voice: Voice, *, deadline: float = float("inf")) -> AsyncGenerator[Pcm, None]:
        """See `Synthesizer`. One chunk a sentence."""
        request = {"speak": text, "speed": voice.speed}
        if voice.name in self._voices and len(self._voices) > 1:
            request["speaker"] = self._voices.index(voice.name)
        return self._process.spoken(request, deadline)

    async def warm(self) -> None:
        """See `Synthesizer`."""
        for text in ("Hello.", "One moment, please, I am getting ready to talk."):
            async for _ in self.speak(text, Voice()):
                pass

    async def close(self) -> None:
        """See `Synthesizer`."""
        await self._process.close()
