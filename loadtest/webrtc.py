"""A caller on WebRTC, as a browser is one: Opus over DTLS-SRTP by aiortc, events on the data channel `oai-events`."""

import asyncio
import json
from fractions import Fraction
from typing import Any

import aiohttp
import av
import numpy as np
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

from loadtest.address import as_http
from loadtest.line import Broken, Line, Pcm, Refused
from loadtest.realtime_events import note

_CREATED = 201
_BIT_RATE = 64_000


class _Microphone(MediaStreamTrack):
    """Gives out the frames that the line sends, when it sends them, as Opus.

    Encoded here, in mono: aiortc's own encoder works on two channels at its highest effort.
    """

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.frames: asyncio.Queue[Pcm] = asyncio.Queue(maxsize=50)
        self._given = self._sent = 0
        self._encoder: Any = av.CodecContext.create("libopus", "w")
        self._encoder.format, self._encoder.layout = "s16", "mono"
        self._encoder.sample_rate, self._encoder.bit_rate = WebRtc.rate, _BIT_RATE
        self._encoder.options = {"application": "voip", "compression_level": "5"}

    async def recv(self) -> Any:
        packets: list[Any] = []
        while not packets:
            packets = self._encoder.encode(self._framed(await self.frames.get()))
        packet = packets[0]
        packet.pts, packet.time_base = self._sent, Fraction(1, WebRtc.rate)
        self._sent += WebRtc.rate // 50
        return packet

    def _framed(self, pcm: Pcm) -> av.AudioFrame:
        samples = (np.clip(pcm, -1, 1) * 32767).astype(np.int16).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, "s16", "mono")
        frame.sample_rate, frame.pts, frame.time_base = WebRtc.rate, self._given, Fraction(1, WebRtc.rate)
        self._given += len(pcm)
        return frame


class WebRtc(Line):
    """One call. When audio could be heard is when aiortc's jitter buffer gives it out."""

    rate = 48_000

    async def open(self) -> None:
        """See `Line`."""
        self._peer, self._microphone = RTCPeerConnection(), _Microphone()
        self._up, self._over = asyncio.Event(), asyncio.Event()
        self._ear: asyncio.Future[MediaStreamTrack] = asyncio.get_running_loop().create_future()
        self._peer.addTrack(self._microphone)
        self._peer.createDataChannel("oai-events").on("message", lambda text: note(self, json.loads(text)))
        self._peer.on("track", self._on_track)
        self._peer.on("connectionstatechange", self._on_state)
        await self._peer.setLocalDescription(await self._peer.createOffer())
        answer = await self._offer(self._peer.localDescription.sdp)
        await self._peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        await self._up.wait()
        if self._over.is_set():
            raise Refused(f"no connection: ICE {self._peer.iceConnectionState}")

    async def _offer(self, sdp: str) -> str:
        headers = {"Content-Type": "application/sdp"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.post(f"{as_http(self.server)}/v1/realtime/calls", data=sdp, headers=headers) as answer,
            ):
                if answer.status != _CREATED:
                    after = answer.headers.get("Retry-After", "")
                    raise Refused(f"HTTP {answer.status}", status=answer.status, retry_after=after)
                return await answer.text()
        except aiohttp.ClientError as error:
            raise Refused(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """See `Line`."""
        if hasattr(self, "_peer"):
            await self._peer.close()

    async def send(self, pcm: Pcm) -> None:
        """See `Line`."""
        if self._over.is_set():
            raise Broken(f"the connection is {self._peer.connectionState}")
        if self._microphone.frames.full():
            self._microphone.frames.get_nowait()
        self._microphone.frames.put_nowait(pcm)

    async def listen(self) -> None:
        """See `Line`."""
        track = await self._ear
        try:
            while True:
                frame: Any = await track.recv()
                samples = frame.to_ndarray().reshape(-1, len(frame.layout.channels))
                self.hear(samples[:, 0].astype(np.float32) / 32768)
        except MediaStreamError:
            self._over.set()

    def _on_track(self, track: MediaStreamTrack) -> None:
        if not self._ear.done():
            self._ear.set_result(track)

    def _on_state(self) -> None:
        state = self._peer.connectionState
        if state in ("failed", "closed"):
            self._over.set()
        if state in ("connected", "failed", "closed"):
            self._up.set()
