"""WebRTC by aiortc: an SDP offer in, an answer out, audio as RTP, events on the data channel `oai-events`."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import structlog
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCIceServer,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError

from budget.errors import PeerError
from transport.backlog import Backlog
from transport.frame import Framer, Pcm
from transport.leg import NoTelephone, Notice, ReplyEnded, ReplyStarted
from transport.opus_track import RATE, AgentTrack
from transport.realtime import RealtimeSession
from transport.requests import FromClient
from transport.resample import Resampler

log = structlog.get_logger(__name__)

CHANNEL = "oai-events"
CONNECT_PATIENCE = 20.0
"""Seconds within which ICE and DTLS must be up."""
_GONE = 12.0
"""Seconds without a byte after which a client counts as gone: even a muted one reports every few seconds."""
_LOOKS = 2.0
"""Seconds between two looks for that."""
_EARLY_EVENTS = 64
MOST_EVENT_BYTES = 1 << 18


class WebRtcLeg(NoTelephone):
    """A call's leg over one peer connection."""

    kind = "webrtc"
    rate = RATE
    greets = False
    about: Mapping[str, str] = MappingProxyType({})

    def __init__(self, session: RealtimeSession, ice_servers: list[RTCIceServer]) -> None:
        self._session = session
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=ice_servers))
        self._agent = AgentTrack()
        self._channel: RTCDataChannel | None = None
        self._early: deque[str] = deque(maxlen=_EARLY_EVENTS)
        self._inbound = Backlog()
        self._connected = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._sounding = ""
        self._peer.on("track", self._on_track)
        self._peer.on("datachannel", self._on_channel)
        self._peer.on("connectionstatechange", self._on_state)

    async def accept(self, offer: str) -> str:
        """The answer to the client's offer. Raises `PeerError` when the offer can't be used."""
        try:
            await self._peer.setRemoteDescription(RTCSessionDescription(offer, "offer"))
            if not any(t.kind == "audio" for t in self._peer.getTransceivers()):
                raise PeerError("invalid_offer", "the offer has no audio section", param="sdp")
            self._peer.addTrack(self._agent)
            await self._peer.setLocalDescription(await self._peer.createAnswer())
        except PeerError:
            await self.hangup("bad offer")
            raise
        except Exception as error:  # aiortc answers a broken SDP with whatever its parser trips over
            await self.hangup("bad offer")
            raise PeerError("invalid_offer", f"the SDP offer can't be used: {error}", param="sdp") from error
        return str(self._peer.localDescription.sdp)

    def queue(self, request: FromClient) -> None:
        """A request that came with the offer: the first thing the call sees."""
        self._inbound.put(request)

    async def frames(self) -> AsyncIterator[FromClient]:
        """See `CallLeg`."""
        try:
            async with asyncio.timeout(CONNECT_PATIENCE):
                await self._connected.wait()
        except TimeoutError:
            log.warning("webrtc not connected", ice=self._peer.iceConnectionState, hint="firewall, NAT or TURN")
            return
        async for entry in self._inbound.entries():
            yield entry

    async def play(self, pcm: Pcm) -> None:
        """See `CallLeg`."""
        if self._sounding:
            self._send(self._session.narrator.event("output_audio_buffer.started", response_id=self._sounding))
            self._sounding = ""
        self._agent.push(pcm)

    async def flush(self) -> float:
        """See `CallLeg`."""
        return self._agent.flush()

    async def notify(self, notice: Notice) -> None:
        """See `CallLeg`; adds WebRTC's own events about the output buffer."""
        for event in self._session.send(notice):
            self._send(event)
        if isinstance(notice, ReplyStarted):
            self._sounding = notice.reply_id if notice.audio else ""
        elif isinstance(notice, ReplyEnded) and notice.audio:
            kind = "stopped" if notice.outcome == "completed" else "cleared"
            self._send(self._session.narrator.event(f"output_audio_buffer.{kind}", response_id=notice.reply_id))

    async def hangup(self, reason: str) -> None:
        """See `CallLeg`."""
        self._end()
        self._agent.stop()
        for task in (self._reader, self._watcher):
            if task is not None:
                task.cancel()
        if self._inbound.dropped:
            log.warning("audio dropped: the call could not keep up", frames=self._inbound.dropped)
        await self._peer.close()

    # ---- callbacks of the peer connection ------------------------------------------------------

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind == "audio" and self._reader is None:
            self._reader = asyncio.get_running_loop().create_task(self._listen(track))

    async def _listen(self, track: MediaStreamTrack) -> None:
        """Decoded Opus (48 kHz, interleaved stereo) to frames, until the track ends."""
        framer, resampler = Framer(), Resampler(48_000, 16_000)
        try:
            while True:
                frame: Any = await track.recv()
                samples = frame.to_ndarray().reshape(-1, len(frame.layout.channels))
                mono = samples.astype(np.float32).mean(axis=1) / 32768.0
                if resampler.source != frame.sample_rate:
                    resampler = Resampler(frame.sample_rate, 16_000)
                for entry in framer.push(resampler.push(mono)):
                    self._inbound.put(entry)
        except MediaStreamError:
            self._end()

    def _on_channel(self, channel: RTCDataChannel) -> None:
        if channel.label != CHANNEL:
            return
        self._channel = channel
        channel.on("message", self._on_message)
        while self._early:
            channel.send(self._early.popleft())

    def _on_message(self, message: str | bytes) -> None:
        if len(message) > MOST_EVENT_BYTES:
            for event in self._session.trouble("message_too_large", f"events are at most {MOST_EVENT_BYTES} bytes"):
                self._send(event)
            return
        received = self._session.receive(message)
        for event in received.events:
            self._send(event)
        for entry in received.entries:
            self._inbound.put(entry)

    def _on_state(self) -> None:
        state = self._peer.connectionState
        if state == "connected":
            self._connected.set()
            self._watcher = self._watcher or asyncio.get_running_loop().create_task(self._watch())
        elif state in ("failed", "closed"):
            if state == "failed":
                log.warning("webrtc failed", ice=self._peer.iceConnectionState)
            self._end()

    async def _watch(self) -> None:
        """End the call of a client that vanished: ICE notices it only after half a minute (RFC 7675)."""
        loop = asyncio.get_running_loop()
        known, since = -1, loop.time()
        while loop.time() - since < _GONE:
            await asyncio.sleep(_LOOKS)
            stats = (await self._peer.getStats()).values()
            received = sum(entry.bytesReceived for entry in stats if entry.type == "transport")
            if received != known:
                known, since = received, loop.time()
        log.info("webrtc client vanished")
        self._end()

    def _end(self) -> None:
        self._inbound.close("peer gone")
        self._connected.set()

    def _send(self, event: dict[str, Any]) -> None:
        text = json.dumps(event, ensure_ascii=False)
        if self._channel is None:
            self._early.append(text)
        elif self._channel.readyState == "open":
            self._channel.send(text)
