"""A caller on Twilio Media Streams: sends 8 kHz mu-law at real time, knows when it could hear what."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadtest.line import Pcm
from loadtest.socket_line import SocketLine

RATE = 8_000
FRAME = 160

_BIAS, _CLIP = 132, 32_635


def _codes() -> NDArray[np.uint8]:
    """The mu-law code of every 16-bit sample, the samples in the order of their bits as unsigned numbers."""
    scaled = np.arange(1 << 16, dtype=np.uint16).view(np.int16).astype(np.int32)
    magnitude = np.minimum(np.abs(scaled), _CLIP) + _BIAS
    exponent = np.floor(np.log2(magnitude)).astype(np.int32) - 7
    mantissa = (magnitude >> (exponent + 3)) & 0x0F
    code = (exponent << 4) | mantissa | np.where(scaled < 0, 0x80, 0)
    return np.asarray((~code & 0xFF).astype(np.uint8))


def _samples() -> Pcm:
    """The sample of every code."""
    code = ~np.arange(256, dtype=np.uint8)
    value = ((((code & 0x0F).astype(np.int32) << 3) + _BIAS) << ((code >> 4) & 7).astype(np.int32)) - _BIAS
    return (np.where(code & 0x80, -value, value) / 32768).astype(np.float32)


_CODES, _SAMPLES = _codes(), _samples()


def encode(pcm: Pcm) -> bytes:
    """G.711 mu-law (ITU-T G.711), written here anew so that the tester shares no code with what it tests."""
    scaled = np.clip(pcm * 32768, -32768, 32767).astype(np.int16)
    return bytes(_CODES[scaled.view(np.uint16)])


def decode(data: bytes) -> Pcm:
    """Inverse of `encode`."""
    return np.asarray(_SAMPLES[np.frombuffer(data, np.uint8)])


class Telephone(SocketLine):
    """One call. A key goes as the stream's parameter `api_key`, as Twilio sends it."""

    rate = RATE
    path = "/twilio"

    async def greet(self) -> None:
        """See `SocketLine`."""
        form = {"encoding": "audio/x-mulaw", "sampleRate": RATE, "channels": 1}
        start = {"streamSid": "MZ1", "callSid": "CA1", "tracks": ["inbound"], "mediaFormat": form}
        await self.tell({"event": "connected", "protocol": "Call", "version": "1.0.0"})
        parameters = {"api_key": self.key} if self.key else {}
        await self.tell({"event": "start", "streamSid": "MZ1", "start": {**start, "customParameters": parameters}})

    async def part(self) -> None:
        """See `SocketLine`."""
        await self.tell({"event": "stop", "streamSid": "MZ1", "stop": {}})

    async def send(self, pcm: Pcm) -> None:
        """See `Line`."""
        media = {"track": "inbound", "payload": base64.b64encode(encode(pcm)).decode()}
        await self.tell({"event": "media", "streamSid": "MZ1", "media": media})

    async def take(self, message: dict[str, Any]) -> None:
        """See `SocketLine`; marks are answered at once."""
        match message["event"]:
            case "media":
                self.hear(decode(base64.b64decode(message["media"]["payload"])))
            case "clear":
                self.clear()
            case "mark":
                await self.tell({"event": "mark", "streamSid": "MZ1", "mark": message["mark"]})
