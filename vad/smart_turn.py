"""smart-turn v3.2 (pipecat-ai, BSD-2): from the sound of the last 8 s, the probability that the turn is complete.

A Whisper-tiny encoder with a classifier on top, about 40 ms on one thread. Its input is the last
8 s, padded with zeros in front, at zero mean and unit variance, as Whisper's log-mel (80 x 800).
It was trained on turns with some 200 ms of silence behind them; without it many whole sentences
count as unfinished, so the caller of `probability` hands in the silence too.
"""

from pathlib import Path

import numpy as np
import onnxruntime
from faster_whisper.feature_extractor import FeatureExtractor

from budget.errors import ModelError
from budget.memory import Reservation
from vad.speech import RATE, Pcm

SECONDS = 8
"""How much of the turn's end the model hears."""
_SAMPLES = SECONDS * RATE
_FRAMES = SECONDS * 100


def reservation(model: Path) -> Reservation:
    """What the model will hold (measured with 8.7 MB: 10-21 MB)."""
    stored = model.stat().st_size
    return Reservation("smart-turn", "cpu", stored, int(1.6 * stored))


class SmartTurn:
    """The shared model; no state between turns, so any thread may ask. Raises `ModelError` if it can't be loaded."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions have no common type of their own
            raise ModelError(f"the turn model {path} can't be loaded: {error}") from error
        self._mel = FeatureExtractor(feature_size=80)

    def probability(self, pcm: Pcm) -> float:
        """See `TurnEndModel`."""
        heard = pcm[-_SAMPLES:].astype(np.float32)
        window = np.zeros(_SAMPLES, np.float32)
        window[_SAMPLES - len(heard) :] = heard
        window = (window - window.mean()) / np.sqrt(window.var() + 1e-7)
        mel = self._mel(window, padding=0)[:, :_FRAMES].astype(np.float32)
        (complete,) = self._session.run(None, {"input_features": mel[None]})
        return float(complete.ravel()[0])
