"""The unit of audio inside the service: 20 ms of 16 kHz mono, stamped with media time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
"""Hz; the rate at which VAD and ASR listen."""
FRAME = 320
"""Samples in one frame: 20 ms."""
FRAME_SECONDS = FRAME / RATE

Pcm = NDArray[np.float32]
"""Mono samples in [-1, 1]."""


@dataclass(frozen=True, eq=False)
class AudioFrame:
    """One frame of the caller's audio.

    `pcm` is float32 (320,) in [-1, 1]; `time` is the media time of its first sample: samples
    received so far / 16,000, seconds since the call began. It never is the wall clock, so a test
    may feed a recording as fast as it likes.
    """

    pcm: Pcm
    time: float


class Framer:
    """Cuts a stream of any chunk sizes at 16 kHz into frames; keeps the rest for the next chunk."""

    def __init__(self) -> None:
        self._rest: Pcm = np.empty(0, np.float32)
        self._frames = 0

    def push(self, pcm: Pcm) -> list[AudioFrame]:
        """Append samples at 16 kHz; return the frames that became whole."""
        stream = np.concatenate([self._rest, pcm]) if self._rest.size else pcm
        whole = len(stream) // FRAME
        self._rest = stream[whole * FRAME :]
        frames = [
            AudioFrame(
                np.ascontiguousarray(stream[i * FRAME : (i + 1) * FRAME], np.float32),
                (self._frames + i) * FRAME_SECONDS,
            )
            for i in range(whole)
        ]
        self._frames += whole
        return frames


def from_pcm16(data: bytes) -> Pcm:
    """Little-endian signed 16-bit samples to float32; a trailing odd byte is dropped."""
    return np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.float32) / 32768.0


def to_pcm16(pcm: Pcm) -> bytes:
    """float32 samples to little-endian signed 16-bit, clipped."""
    return (np.clip(pcm, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()
