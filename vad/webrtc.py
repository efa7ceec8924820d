"""WebRTC's classic VAD: the cheap first gate before Silero, and a detector by itself as fallback.

It judges energy in bands, so quiet microphones (speech near -65 dBFS) are levelled first; it
takes music and loud noise for speech, which is why Silero has the last word.
"""

from collections import deque

import numpy as np
import webrtcvad

from vad.speech import WINDOW_SECONDS, Pcm, SpeechDetector

_STEP = 160
"""10 ms, the shortest frame that the library takes."""
_TARGET = 0.05
_MOST_GAIN = 100.0


class _Leveller:
    """Gain towards a speech-like level from a slowly falling envelope; never attenuates."""

    def __init__(self) -> None:
        self._envelope = 0.0

    def apply(self, pcm: Pcm) -> Pcm:
        level = float(np.sqrt(np.mean(np.square(pcm)))) if pcm.size else 0.0
        self._envelope = max(level, self._envelope * 0.9995)
        gain = min(_MOST_GAIN, max(1.0, _TARGET / max(self._envelope, 1e-6)))
        return pcm * np.float32(gain)


class WebRtcDetector:
    """Share of 10 ms frames in the window that WebRTC's VAD calls speech.

    `mode` 0-3: how strict; 2 keeps the words of all test recordings and rejects line noise.
    """

    def __init__(self, mode: int = 2) -> None:
        self._vad = webrtcvad.Vad(mode)
        self._leveller = _Leveller()
        self._rest: Pcm = np.empty(0, np.float32)

    def probability(self, window: Pcm) -> float:
        """See `SpeechDetector`."""
        stream = np.concatenate([self._rest, self._leveller.apply(window)])
        data = (np.clip(stream, -1, 1) * 32767).astype("<i2")
        steps = len(data) // _STEP
        self._rest = stream[steps * _STEP :]
        votes = [self._vad.is_speech(data[i * _STEP : (i + 1) * _STEP].tobytes(), 16_000) for i in range(steps)]
        return float(sum(votes)) / max(1, len(votes))


class GatedDetector:
    """Asks the judge only while the gate hears something, or did within `hold` seconds.

    Windows seen with the gate shut are kept (the last `replay`) and fed to the judge when it
    opens, so that its state and the first syllable are as if it had listened all along.
    """

    def __init__(self, gate: SpeechDetector, judge: SpeechDetector, *, hold: float = 0.6, replay: int = 10) -> None:
        self._gate, self._judge = gate, judge
        self._hold = round(hold / WINDOW_SECONDS)
        self._open_for = 0
        self._missed: deque[Pcm] = deque(maxlen=replay)

    def probability(self, window: Pcm) -> float:
        """See `SpeechDetector`; 0 while the gate is shut."""
        if self._gate.probability(window) > 0:
            self._open_for = self._hold
        if self._open_for == 0:
            self._missed.append(window)
            return 0.0
        self._open_for -= 1
        while self._missed:
            self._judge.probability(self._missed.popleft())
        return self._judge.probability(window)
