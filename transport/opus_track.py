"""The agent's voice as a WebRTC track: Opus packets made here, sent only while the agent speaks.

aiortc takes packets that are already encoded, so the encoder can be mono and at speech bitrate
instead of its own stereo 96 kbit/s. The RTP clock goes on while nothing is sent, as RFC 3550
asks of silence suppression, so that the browser's jitter buffer does not take a pause for a delay.
"""

import asyncio
from collections import deque
from fractions import Fraction
from typing import Any

import av
import numpy as np
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from transport.frame import Pcm, to_pcm16

RATE = 24_000
_RTP_RATE = 48_000
_FRAME_TICKS = 960
_QUEUE = 50
_BITRATE = 32_000


class AgentTrack(MediaStreamTrack):
    """A track fed with 20 ms frames at 24 kHz."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._codec: av.AudioCodecContext = av.CodecContext.create("libopus", "w")
        self._codec.sample_rate = RATE
        self._codec.layout = "mono"
        self._codec.format = "s16"
        self._codec.bit_rate = _BITRATE
        self._codec.time_base = Fraction(1, RATE)
        self._codec.options = {"application": "voip", "frame_duration": "20"}
        self._packets: deque[Any] = deque()
        self._filled = asyncio.Event()
        self._origin: float | None = None
        self._next = 0
        self._samples = 0

    def push(self, pcm: Pcm) -> None:
        """Encode one frame and queue its packet, stamped by when it is to be heard."""
        frame = av.AudioFrame.from_ndarray(
            np.frombuffer(to_pcm16(pcm), np.int16).reshape(1, -1), format="s16", layout="mono"
        )
        frame.sample_rate = RATE
        frame.pts, frame.time_base = self._samples, Fraction(1, RATE)
        self._samples += len(pcm)
        for packet in self._codec.encode(frame):
            packet.pts, packet.time_base = self._stamp(), Fraction(1, _RTP_RATE)
            self._packets.append(packet)
        while len(self._packets) > _QUEUE:
            self._packets.popleft()
        self._filled.set()

    def flush(self) -> float:
        """Drop what was not sent; returns its seconds."""
        seconds = len(self._packets) * 0.02
        self._packets.clear()
        return seconds

    async def recv(self) -> Any:
        """The next packet; waits while the agent is silent."""
        while not self._packets:
            if self.readyState != "live":
                raise MediaStreamError
            self._filled.clear()
            await self._filled.wait()
        return self._packets.popleft()

    def stop(self) -> None:
        """End the track and whoever waits for it."""
        super().stop()
        self._filled.set()

    def _stamp(self) -> int:
        """The next RTP time: on from the last frame, or from the clock after a pause."""
        now = asyncio.get_running_loop().time()
        if self._origin is None:
            self._origin = now
        clock = round((now - self._origin) * 50) * _FRAME_TICKS
        if clock > self._next + 10 * _FRAME_TICKS:
            self._next = clock
        stamp, self._next = self._next, self._next + _FRAME_TICKS
        return stamp
