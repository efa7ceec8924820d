"""Silero VAD v6 by onnxruntime, one window at a time with its recurrent state carried along.

The model file ships inside `faster-whisper` (MIT). It takes 64 samples of context before the
512 of the window, and an LSTM state of (1, 1, 128) twice; about 0.15 ms a window.
"""

from importlib.resources import files
from pathlib import Path

import numpy as np
import onnxruntime

from budget.onnx import onnx_session
from vad.speech import Pcm

CONTEXT = 64


def load_session(path: Path | None = None) -> onnxruntime.InferenceSession:
    """The shared model on one thread; `path` overrides the packaged file."""
    return onnx_session(path or Path(str(files("faster_whisper") / "assets" / "silero_vad_v6.onnx")))


class SileroDetector:
    """One call's state over the shared session."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self._h = np.zeros((1, 1, 128), np.float32)
        self._c = np.zeros((1, 1, 128), np.float32)
        self._context = np.zeros(CONTEXT, np.float32)

    def probability(self, window: Pcm) -> float:
        """See `SpeechDetector`."""
        feed = {"input": np.concatenate([self._context, window])[None], "h": self._h, "c": self._c}
        probability, self._h, self._c = self._session.run(None, feed)
        self._context = window[-CONTEXT:]
        return float(probability.ravel()[0])
