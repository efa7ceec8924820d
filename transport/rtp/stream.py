"""One call's audio over RTP, both ways: sockets, order, concealment, comfort noise, pacing, digits.

Ports, RTCP reports, packets and the concealment of lost ones are aiortp's; what it would do otherwise than a
voice agent needs is done here: packets that are in order are passed on at once (`transport.rtp.order`), packet times
other than 20 ms, the source of the audio is followed once and not to wherever anybody's packet comes from, keys are
heard from their first packet and sent in step with the audio.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from aiortp import PcmConcealer, PortAllocator, RtcpByePacket, RtcpPacket, RtcpRrPacket, RtcpSrPacket, RtpPacket
from aiortp.base_session import BaseRTPSession
from aiortp.cn import build_cn_payload

from transport.frame import Framer, Pcm, from_pcm16, to_pcm16
from transport.requests import FromClient, PressKey
from transport.resample import Resampler
from transport.rtp.digits import DigitsHeard, EventPacket, event_packets
from transport.rtp.formats import Format
from transport.rtp.order import Lost, Reorder

QUIET_AFTER = 0.2
"""Seconds without a packet after which the line counts as silent, not as late."""
RELATCH = 2.0
"""Seconds without audio from its source after which it may come from elsewhere."""
_BEHIND = 0.1
"""Seconds behind the clock at which packets are given up instead of sent late."""
_NOISE_LEVEL = 70
"""-dBov of our comfort noise."""
_NOISE_EVERY = 3.0
_MOST_CONCEALED = 1.0
_MOST_QUEUED = 50
"""Frames of ours that may wait: 1 s, far beyond what playout sends ahead."""


@dataclass(frozen=True)
class Media:
    """What both sides agreed on for a call's audio."""

    form: Format
    payload_type: int
    address: tuple[str, int]
    """Where the other side wants its audio."""
    ptime: int = 20
    """Milliseconds of audio in a packet of ours."""
    events: int | None = None
    """The payload type of telephone events; None: there are none."""
    noise: int | None = None
    """The payload type of comfort noise (RFC 3389); None: silence is sent as audio."""
    sends: bool = True
    hears: bool = True
    """As the other side allows: neither while it has us on hold."""

    @property
    def held(self) -> bool:
        """The other side doesn't listen."""
        return not self.sends


class RtpStream(BaseRTPSession):
    """A call's audio. `put` is given the caller's frames and keys."""

    def __init__(self, media: Media, put: Callable[[FromClient], None], ports: PortAllocator) -> None:
        super().__init__(media.payload_type, clock_rate=media.form.clock, port_allocator=ports, cname="halfsecond")
        self._put = put
        self._queue: deque[Pcm] = deque(maxlen=_MOST_QUEUED)
        self._tones: deque[EventPacket | None] = deque()
        self._pressed = asyncio.Event()
        self._event_at = 0
        self._framer = Framer()
        self._noise_at: float | None = None
        self._due = 0.0
        self._source: tuple[str, int] | None = None
        self.heard_at = 0.0
        """When the last packet came, audio or report (loop seconds)."""
        self._audio_at = 0.0
        self._silent_until = 0.0
        self.late = self.foreign = 0
        """Packets given up because we were late; packets from somewhere else than the audio's source."""
        self.agree(media)

    def agree(self, media: Media) -> None:
        """The call's audio is as agreed from now on."""
        self.media = media
        self._payload_type, self._clock_rate = media.payload_type, media.form.clock
        if self._sender is not None:
            self._sender._payload_type, self._sender._clock_rate = media.payload_type, media.form.clock
            if self._source is None or self._source[0] != media.address[0]:
                self._source = None
                self.update_remote(media.address)
        self._coder = media.form.new_coder()
        self._step = media.form.clock * media.ptime // 1000
        self._samples = media.form.rate * media.ptime // 1000
        self._silence = self._coder.encode(np.zeros(self._samples, np.float32))
        self._queue.clear()
        self._new_source()

    async def open(self, host: str, now: float) -> int:
        """Take a pair of ports on `host`; returns the one of RTP. Raises `RuntimeError` if none is free."""
        await self._bind_transports((host, 0), self.media.address)
        assert self._sender is not None
        self._sender.timestamp_increment = self._step
        self.heard_at = self._audio_at = now
        self._due = now
        return self._allocated_rtp_port or 0

    # ---- to the other side -------------------------------------------------------------------------

    def play(self, pcm: Pcm) -> None:
        """Queue 20 ms at the format's rate."""
        self._queue.append(pcm)

    def flush(self) -> float:
        """Drop what is queued; returns its seconds."""
        seconds = sum(map(len, self._queue)) / self.media.form.rate
        self._queue.clear()
        return seconds

    def press(self, keys: str) -> None:
        """Send keys. Raises `ValueError` for what is no key."""
        packets = [p for key in keys for p in event_packets(key, self.media.form.clock, self.media.ptime)]
        self._tones.extend(packets)
        self._pressed.clear()

    async def pressed(self) -> None:
        """Wait until all keys were sent."""
        await self._pressed.wait()

    def tick(self, now: float) -> None:
        """Send what is due, and hear what is overdue."""
        if self._closed or self._sender is None:
            return
        self._hear(self._order.due(now))
        self._fill_silence(now)
        if now - self._due > _BEHIND:
            self.late += 1
            self._due = now
        seconds = self.media.ptime / 1000
        while self._due <= now:
            self._due += seconds
            if self.media.sends:
                self._send_next(now)
            self._sender.advance_timestamp()

    def _send_next(self, now: float) -> None:
        assert self._sender is not None
        if self._tones and self.media.events is not None:
            self._send_event(self._tones.popleft())
            if not self._tones:
                self._pressed.set()
        elif (pcm := self._next_block()) is not None:
            marker = int(self._noise_at is not None or self._sender.packets_sent == 0)
            self._noise_at = None
            self._send(self._coder.encode(pcm), marker)
        elif self.media.noise is not None and self._sender.packets_sent:
            self._send_noise(now)
        else:
            self._send(self._silence, int(self._sender.packets_sent == 0))

    def _send(self, payload: bytes, marker: int) -> None:
        assert self._sender is not None
        if payload:
            self._sender.send_frame(payload, self._sender.current_timestamp, marker, self._remote_addr)

    def _send_event(self, packet: EventPacket | None) -> None:
        assert self._sender is not None and self.media.events is not None
        if packet is None:
            self._send(self._silence, 0)
            return
        if packet.first:
            self._event_at = self._sender.current_timestamp
        self._sender.send_raw(
            self.media.events, packet.payload, self._event_at, int(packet.first), addr=self._remote_addr
        )

    def _send_noise(self, now: float) -> None:
        assert self._sender is not None and self.media.noise is not None
        if self._noise_at is None or now - self._noise_at >= _NOISE_EVERY:
            self._noise_at = now
            stamp = self._sender.current_timestamp
            self._sender.send_raw(self.media.noise, build_cn_payload(_NOISE_LEVEL), stamp, addr=self._remote_addr)

    def _next_block(self) -> Pcm | None:
        """Audio for one packet, padded with silence at the end of speech; None when there is none."""
        if not self._queue:
            return None
        parts, missing = [], self._samples
        while missing and self._queue:
            part = self._queue.popleft()
            if len(part) > missing:
                self._queue.appendleft(part[missing:])
                part = part[:missing]
            parts.append(part)
            missing -= len(part)
        return np.concatenate([*parts, np.zeros(missing, np.float32)])

    def _on_closing(self) -> None:
        self._tones.clear()
        self._pressed.set()

    # ---- from the other side -----------------------------------------------------------------------

    def _handle_rtp(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._loop is not None
        now = self._loop.time()
        try:
            packet = RtpPacket.parse(data)
        except ValueError:
            return
        if not self._from_source(addr, now):
            self.foreign += 1
            return
        self.heard_at = now
        if packet.ssrc != self._remote_ssrc:
            self._remote_ssrc_changed(packet.ssrc)
            self._new_source()
        if self._stream_stats is not None:
            self._stream_stats.add(packet)
        self._hear(self._order.push(packet.sequence_number, packet, now))

    def _from_source(self, addr: tuple[str, int], now: float) -> bool:
        """Whether a packet is of the audio's source: the first to send, until it has been silent for a while.

        Behind a NAT that is not the address in the SDP (RFC 4961), and our audio goes back there.
        """
        if addr != self._source:
            if self._source is not None and now - self._audio_at < RELATCH:
                return False
            self._source = addr
            self.update_remote(addr)
        self._audio_at = now
        return True

    def _new_source(self) -> None:
        self._order = Reorder[RtpPacket]()
        self._digits = DigitsHeard()
        self._coder_in = self.media.form.new_coder()
        self._resampler = Resampler(self.media.form.rate, 16_000)
        self._concealer = PcmConcealer(self.media.form.rate)
        self._quiet = False
        """The other side said that it sends no audio now."""

    def _hear(self, entries: Iterator[RtpPacket | Lost]) -> None:
        for entry in entries:
            if isinstance(entry, Lost):
                self._conceal(entry.packets)
            elif entry.payload_type == self.media.payload_type:
                self._decode(entry.payload)
            elif entry.payload_type == self.media.events:
                key = self._digits.receive(entry.payload, entry.timestamp)
                if key is not None and self.media.hears:
                    self._put(PressKey(key))
            elif entry.payload_type == (self.media.noise or 13):
                self._quiet = True

    def _decode(self, payload: bytes) -> None:
        try:
            pcm = self._coder_in.decode(payload)
        except ValueError:
            self._conceal(1)
            return
        self._quiet = False
        self._concealer.update(to_pcm16(pcm))
        self._listen(pcm)

    def _conceal(self, packets: int) -> None:
        samples = min(packets * self._concealer.frame_samples, round(_MOST_CONCEALED * self.media.form.rate))
        if samples:
            self._listen(from_pcm16(self._concealer.conceal(samples)))

    def _fill_silence(self, now: float) -> None:
        """The listener needs silence where nothing is sent: 20 ms of it each 20 ms."""
        quiet_since = self._audio_at + (0.0 if self._quiet else QUIET_AFTER)
        self._silent_until = max(self._silent_until, quiet_since)
        while now - self._silent_until >= 0.02:
            self._silent_until += 0.02
            self._listen(np.zeros(self.media.form.rate // 50, np.float32))

    def _listen(self, pcm: Pcm) -> None:
        if self.media.hears:
            for frame in self._framer.push(self._resampler.push(pcm)):
                self._put(frame)

    def _handle_rtcp(self, data: bytes, addr: tuple[str, int]) -> None:
        if self._source is None or addr[0] != self._source[0]:
            return
        try:
            packets = RtcpPacket.parse(data)
        except ValueError:
            return
        assert self._loop is not None
        self.heard_at = self._loop.time()
        self._remote_rtcp_addr = addr
        for packet in packets:
            if isinstance(packet, RtcpSrPacket):
                self._record_incoming_sr(packet.sender_info.ntp_timestamp)
            if isinstance(packet, RtcpSrPacket | RtcpRrPacket):
                self._process_receiver_reports(packet.reports)
            elif isinstance(packet, RtcpByePacket):
                continue  # the call's end is SIP's to say
