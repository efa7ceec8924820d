"""The audio formats of telephone lines: their names in SDP, their clocks, and their coders.

Formats and static payload types: RFC 3551; Opus: RFC 7587. G.722's RTP clock is 8 kHz for audio at 16 kHz, an
old mistake that RFC 3551 keeps. G.711 is ours by table, G.722 and Opus are FFmpeg's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext

from transport import g711
from transport.frame import Pcm, from_pcm16, to_pcm16

_OPUS_BITRATE = 32_000


class Coder(Protocol):
    """One direction of one stream each way; stateful."""

    def encode(self, pcm: Pcm) -> bytes:
        """A packet's payload from float32 samples; the length is a whole number of the format's blocks."""
        ...

    def decode(self, payload: bytes) -> Pcm:
        """float32 samples of a payload. Raises `ValueError` for one that can't be decoded."""
        ...


@dataclass(frozen=True)
class Format:
    """`clock`: Hz of RTP timestamps and SDP. `rate`: Hz of the audio. `block`: ms that are encoded in one piece."""

    name: str
    clock: int
    rate: int
    payload_type: int
    """The static one, or the one that we offer."""
    block: int
    new_coder: Callable[[], Coder]
    channels: int = 1
    """In SDP."""

    def ptime(self, wanted: int) -> int:
        """Milliseconds of audio in our packets, when the other side wants so much: 10 to 60, in whole blocks."""
        bounded = max(10, min(60, wanted))
        return max(self.block, bounded // self.block * self.block)


class _G711:
    def __init__(self, law: str) -> None:
        self._law = law

    def encode(self, pcm: Pcm) -> bytes:
        return g711.encode(pcm, self._law)

    def decode(self, payload: bytes) -> Pcm:
        return g711.decode(payload, self._law)


class _Ffmpeg:
    """A coder of FFmpeg's that takes blocks of one length."""

    def __init__(self, name: str, rate: int, block: int, *, layout: str, **options: str) -> None:
        self._rate, self._samples = rate, rate * block // 1000
        self._encoder = _context(name, "w", rate, "mono")
        self._encoder.options = options
        if name == "libopus":
            self._encoder.bit_rate = _OPUS_BITRATE
        self._decoder = _context(name, "r", rate, layout)
        self._pts = 0

    def encode(self, pcm: Pcm) -> bytes:
        blocks = []
        for begin in range(0, len(pcm), self._samples):
            block = np.frombuffer(to_pcm16(pcm[begin : begin + self._samples]), np.int16).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(block, format="s16", layout="mono")
            frame.sample_rate, frame.pts = self._rate, self._pts
            self._pts += block.size
            blocks += [bytes(packet) for packet in self._encoder.encode(frame)]
        return b"".join(blocks)

    def decode(self, payload: bytes) -> Pcm:
        parts: list[Pcm] = []
        try:
            for frame in self._decoder.decode(av.Packet(payload)):
                samples = frame.to_ndarray()
                pcm = samples if samples.dtype == np.float32 else from_pcm16(samples.astype("<i2").tobytes())
                channels = len(frame.layout.channels)
                mono = (
                    pcm.reshape(channels, -1).mean(0) if frame.format.is_planar else pcm.reshape(-1, channels).mean(1)
                )
                parts.append(mono.astype(np.float32))
        except av.FFmpegError as error:
            raise ValueError(str(error)) from error
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _context(name: str, mode: str, rate: int, layout: str) -> AudioCodecContext:
    context = av.CodecContext.create(name, mode)  # type: ignore[call-overload]
    assert isinstance(context, AudioCodecContext)
    context.sample_rate, context.layout = rate, layout
    if mode == "w":
        context.format = "s16"
    context.thread_count = 1
    return context


PCMU = Format("PCMU", 8_000, 8_000, 0, 10, lambda: _G711("mu"))
PCMA = Format("PCMA", 8_000, 8_000, 8, 10, lambda: _G711("a"))
G722 = Format("G722", 8_000, 16_000, 9, 20, lambda: _Ffmpeg("g722", 16_000, 20, layout="mono"))
OPUS = Format(
    "opus",
    48_000,
    48_000,
    106,
    20,
    lambda: _Ffmpeg("libopus", 48_000, 20, layout="stereo", application="voip", frame_duration="20"),
    channels=2,
)
FORMATS = {form.name: form for form in (OPUS, G722, PCMU, PCMA)}
"""By the name in SDP, the best first."""
