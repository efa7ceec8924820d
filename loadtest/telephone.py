"""A caller on Twilio Media Streams: sends 8 kHz mu-law at real time, knows when it could hear what."""

import base64
import json

import numpy as np

from loadtest.line import Line, Pcm

RATE = 8_000
FRAME = 160

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


class Telephone(Line):
    """One call."""

    rate = RATE
    path = "/twilio"

    async def open(self) -> None:
        """See `Line`."""
        form = {"encoding": "audio/x-mulaw", "sampleRate": RATE, "channels": 1}
        start = {"streamSid": "MZ1", "callSid": "CA1", "tracks": ["inbound"], "mediaFormat": form}
        await self._socket.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
        await self._socket.send(json.dumps({"event": "start", "start": start}))

    async def close(self) -> None:
        """See `Line`."""
        await self._socket.send(json.dumps({"event": "stop", "stop": {}}))

    async def send(self, pcm: Pcm) -> None:
        """See `Line`."""
        media = {"track": "inbound", "payload": base64.b64encode(encode(pcm)).decode()}
        await self._socket.send(json.dumps({"event": "media", "media": media}))

    async def listen(self) -> None:
        """See `Line`; marks are answered at once."""
        async for message in self._socket:
            event = json.loads(message)
            if event["event"] == "media":
                self.hear(decode(base64.b64decode(event["media"]["payload"])))
            elif event["event"] == "clear":
                self.clear()
            elif event["event"] == "mark":
                await self._socket.send(json.dumps({"event": "mark", "mark": event["mark"]}))
