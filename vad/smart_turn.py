"""smart-turn v3.2 (pipecat-ai, BSD-2): from the sound of the last 8 s, the probability that the turn is complete.

A Whisper-tiny encoder with a classifier on top, about 40 ms on one thread. Its input is the last
8 s, padded with zeros in front, at zero mean and unit variance, as Whisper's log-mel (80 x 800).
It was trained on turns with some 200 ms of silence behind them; without it many whole sentences
count as unfinished, so the caller of `probability` hands in the silence too.
"""

from pathlib import Path

import numpy as np
from faster_whisper.feature_extractor import FeatureExtractor

from budget.memory import MB, Reservation
from budget.onnx import onnx_session
from vad.speech import RATE, Pcm

SECONDS = 8
"""How much of the turn's end the model hears."""
_SAMPLES = SECONDS * RATE
_FRAMES = SECONDS * 100


_CARD = 64 * MB
"""What the model may take of a card; a CUDA context of 300-600 MB comes on top, unless another engine has made it."""


def reservation(model: Path, *, device: str = "cpu") -> Reservation:
    """What the model will hold (measured with 8.7 MB on a processor: 10-21 MB)."""
    stored = model.stat().st_size
    if device == "cpu":
        return Reservation("smart-turn", device, stored, int(1.6 * stored))
    return Reservation("smart-turn", device, _CARD, 500 * MB)


class SmartTurn:
    """The shared model; no state between turns, so any thread may ask. Raises `ModelError` if it can't be loaded."""

    def __init__(self, path: Path, *, threads: int = 1, device: str = "cpu") -> None:
        self._session = onnx_session(path, threads=threads, device=device, memory=_CARD)
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
