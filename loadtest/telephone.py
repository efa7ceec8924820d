"""A caller on Twilio Media Streams: sends 8 kHz mu-law at real time, knows when it could hear what."""

import asyncio
import base64
import json
from types import TracebackType

import numpy as np
import websockets
from numpy.typing import NDArray

Pcm = NDArray[np.float32]
RATE = 8_000
FRAME = 160
AUDIBLE = 0.01
"""Root mean square of 10 ms above which agent audio counts as heard (-40 dBFS)."""

_BIAS, _CLIP = 132, 32_635


def encode(pcm: Pcm) -> bytes:
    """G.711 mu-law (ITU-T G.711), written here anew so that the tester shares no code with what it tests."""
    scaled = np.clip(pcm * 32768, -32768, 32767).astype(np.int32)
    magnitude = np.minimum(np.abs(scaled), _CLIP) + _BIAS
    exponent = np.floor(np.log2(magnitude)).astype(np.int32) - 7
    mantissa = (magnitude >> (exponent + 3)) & 0x0F
    code = (exponent << 4) | mantissa | np.where(scaled < 0, 0x80, 0)
    return bytes((~code & 0xFF).astype(np.uint8))


def decode(data: bytes) -> Pcm:
    """Inverse of `encode`."""
    code = ~np.frombuffer(data, np.uint8)
    value = ((((code & 0x0F).astype(np.int32) << 3) + _BIAS) << ((code >> 4) & 7).astype(np.int32)) - _BIAS
    return (np.where(code & 0x80, -value, value) / 32768).astype(np.float32)


class Telephone:
    """One call. Times are the event loop's seconds."""

    def __init__(self, port: int) -> None:
        self._url = f"ws://127.0.0.1:{port}/twilio"
        self._noise = np.random.default_rng(0).normal(0, 0.0003, FRAME * 50).astype(np.float32)
        self._sent = 0
        self.audible_until = 0.0
        """Until when the caller hears what arrived so far, played in sequence."""
        self.sounds: list[float] = []
        """When each audible 10 ms reached the caller's ear."""
        self.cleared: list[float] = []

    async def __aenter__(self) -> "Telephone":
        self._socket = await websockets.connect(self._url, max_size=None)
        form = {"encoding": "audio/x-mulaw", "sampleRate": RATE, "channels": 1}
        start = {"streamSid": "MZ1", "callSid": "CA1", "tracks": ["inbound"], "mediaFormat": form}
        await self._socket.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
        await self._socket.send(json.dumps({"event": "start", "start": start}))
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._listener = self._loop.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.cancel()
        await self._socket.send(json.dumps({"event": "stop", "stop": {}}))
        await self._socket.close()

    async def say(self, pcm: Pcm) -> float:
        """Send audio at real time; returns when its last sample was sent."""
        for i in range(0, len(pcm) - FRAME + 1, FRAME):
            await self._frame(pcm[i : i + FRAME])
        return self._loop.time()

    async def wait(self, seconds: float) -> None:
        """Send the line's own faint noise."""
        for _ in range(round(seconds * 50)):
            await self.tick()

    async def hear_out(self, silence: float) -> None:
        """Wait until the agent has been silent for `silence` seconds."""
        await self.wait(silence)
        while self._loop.time() < self.audible_until + silence:
            await self.tick()

    async def tick(self) -> None:
        """Send 20 ms of faint noise."""
        start = self._sent % 50 * FRAME
        await self._frame(self._noise[start : start + FRAME])

    async def _frame(self, pcm: Pcm) -> None:
        self._sent += 1
        await asyncio.sleep(max(0.0, self._began + self._sent * 0.02 - self._loop.time()))
        media = {"track": "inbound", "payload": base64.b64encode(encode(pcm)).decode()}
        await self._socket.send(json.dumps({"event": "media", "media": media}))

    async def _listen(self) -> None:
        async for message in self._socket:
            event = json.loads(message)
            now = self._loop.time()
            if event["event"] == "media":
                self._hear(decode(base64.b64decode(event["media"]["payload"])), now)
            elif event["event"] == "clear":
                self.sounds = [at for at in self.sounds if at <= now]
                self.audible_until = now
                self.cleared.append(now)
            elif event["event"] == "mark":
                await self._socket.send(json.dumps({"event": "mark", "mark": event["mark"]}))

    def _hear(self, pcm: Pcm, now: float) -> None:
        begin = max(now, self.audible_until)
        blocks = pcm[: len(pcm) // 80 * 80].reshape(-1, 80)
        loud = np.flatnonzero(np.sqrt((blocks**2).mean(axis=1)) > AUDIBLE)
        self.sounds += [begin + 0.01 * int(i) for i in loud]
        self.audible_until = begin + len(pcm) / RATE
