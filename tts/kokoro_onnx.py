"""Kokoro's model through onnxruntime, on a processor (INT8) or a card."""

from functools import partial
from pathlib import Path

import numpy as np

from budget.deadline import Stage
from budget.errors import EngineError, ModelError
from budget.memory import MB, Reservation
from budget.onnx import onnx_session
from budget.scheduler import QueueFull, Scheduler
from budget.work import Urgency
from tts.kokoro import Style, Styles
from tts.speech import Pcm

_CUDA = 500 * MB
"""What the runtime takes of a card before any model is there."""


def reservation(model: Path, *, device: str = "cpu") -> Reservation:
    """What the model and its phonemiser (the Piper program without a voice) will hold."""
    stored = model.stat().st_size
    if device == "cpu":
        return Reservation("kokoro", device, stored + 120 * MB, 8 * stored)
    return Reservation("kokoro", device, stored, _CUDA + 8 * stored)


class OnnxKokoro:
    """See `KokoroModel`. Clauses wait in the scheduler. Raises `ModelError`."""

    def __init__(
        self, model: Path, styles: Styles, scheduler: Scheduler, *, threads: int = 2, device: str = "cpu"
    ) -> None:
        if not model.is_file():
            raise ModelError(f"no Kokoro model at {model}; run `halfsecond models pull kokoro`")
        bound = 9 * model.stat().st_size
        self._session = onnx_session(model, threads=threads, device="cuda" if device != "cpu" else "cpu", memory=bound)
        inputs = {entry.name for entry in self._session.get_inputs()}
        self._tokens_input = "input_ids" if "input_ids" in inputs else "tokens"
        self._styles, self._scheduler = styles, scheduler

    async def speak(self, tokens: list[int], style: Style, deadline: float) -> Pcm:
        """See `KokoroModel`."""
        work = partial(self._speak, tokens, style)
        try:
            return await self._scheduler.run(work, Urgency.FIRST_AUDIO, deadline=deadline)
        except QueueFull as error:
            raise EngineError(Stage.TTS, f"Kokoro: {error}", retryable=True) from error

    async def close(self) -> None:
        """See `KokoroModel`."""
        self._scheduler.close()

    def _speak(self, tokens: list[int], style: Style) -> Pcm:
        feed = {
            self._tokens_input: np.array([[0, *tokens, 0]], np.int64),
            "style": self._styles.vector(style.name, len(tokens)).reshape(1, 256),
            "speed": np.array([style.speed], np.float32),
        }
        return np.asarray(self._session.run(None, feed)[0], np.float32).ravel()
