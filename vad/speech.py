"""From speech probabilities to speech that starts and stops: the detector Protocol and its hysteresis."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.float32]

RATE = 16_000
WINDOW = 512
"""Samples a detector judges at once: 32 ms at 16 kHz."""
WINDOW_SECONDS = WINDOW / RATE


class SpeechDetector(Protocol):
    """Judges one call's audio, window after window; holds that call's state and nothing shared."""

    def probability(self, window: Pcm) -> float:
        """Probability in [0, 1] that this window (float32 (512,), 16 kHz) is speech."""
        ...


@dataclass(frozen=True)
class SpeechStarted:
    """Speech began at media time `at`; known at `time` (both seconds)."""

    at: float
    time: float


@dataclass(frozen=True)
class SpeechStopped:
    """No speech since media time `at`; known at `time`. It may go on: only an endpoint ends a turn."""

    at: float
    time: float


SpeechEvent = SpeechStarted | SpeechStopped


@dataclass(frozen=True)
class SpeechThresholds:
    """Hysteresis of the detector's probability.

    Speech starts when the probabilities of the last `start_windows` windows add up to `start`: two
    windows that are surely speech (64 ms) or three that probably are. A spoken "yes" of 200 ms is
    long enough, a click is too short. On the recordings of `tests/data` through G.711 that is 88 ms
    after the first sound (median; 180 ms at the 90th percentile), and music and noise stay below.
    It stops after `stop_windows` windows below `stop`.
    """

    start: float = 1.4
    stop: float = 0.35
    start_windows: int = 3
    stop_windows: int = 2


class SpeechTracker:
    """Follows one call's audio and says when speech starts and stops, in media time."""

    def __init__(self, detector: SpeechDetector, thresholds: SpeechThresholds | None = None) -> None:
        self._detector = detector
        self._limits = thresholds or SpeechThresholds()
        self._rest: Pcm = np.empty(0, np.float32)
        self._time = 0.0
        self._recent: deque[tuple[float, float]] = deque(maxlen=self._limits.start_windows)
        self._quiet = 0
        self.speaking = False
        self.last_speech = 0.0
        """Media time of the end of the last window that counted as speech."""
        self.probability = 0.0

    def push(self, pcm: Pcm) -> list[SpeechEvent]:
        """Feed the next samples (16 kHz, any length); returns what they started or stopped."""
        stream = np.concatenate([self._rest, pcm])
        events: list[SpeechEvent] = []
        whole = len(stream) // WINDOW
        for i in range(whole):
            event = self._judge(stream[i * WINDOW : (i + 1) * WINDOW])
            if event is not None:
                events.append(event)
        self._rest = stream[whole * WINDOW :]
        return events

    def cut_off(self) -> None:
        """The audio has stopped coming: whoever spoke speaks no longer."""
        self.speaking = False
        self._recent.clear()

    def _judge(self, window: Pcm) -> SpeechEvent | None:
        began = self._time
        self._time += WINDOW_SECONDS
        self.probability = self._detector.probability(window)
        self._recent.append((began, self.probability))
        if self.speaking:
            return self._while_speaking()
        if sum(probability for _, probability in self._recent) < self._limits.start:
            return None
        self.speaking, self._quiet, self.last_speech = True, 0, self._time
        first = next(time for time, probability in self._recent if probability >= self._limits.stop)
        return SpeechStarted(first, self._time)

    def _while_speaking(self) -> SpeechEvent | None:
        if self.probability >= self._limits.stop:
            self._quiet, self.last_speech = 0, self._time
            return None
        self._quiet += 1
        if self._quiet < self._limits.stop_windows:
            return None
        self.speaking = False
        self._recent.clear()
        return SpeechStopped(self.last_speech, self._time)
