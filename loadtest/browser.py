"""A caller on OpenAI Realtime: 16 bit PCM at 24 kHz over a WebSocket, as a browser's client sends it."""

import base64
from typing import Any

import numpy as np

from loadtest.line import Pcm
from loadtest.realtime_events import note
from loadtest.socket_line import SocketLine


class Browser(SocketLine):
    """One call, without a greeting: nobody asks for one."""

    rate = 24_000
    path = "/v1/realtime"

    async def send(self, pcm: Pcm) -> None:
        """See `Line`."""
        audio = (np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes()
        await self.tell({"type": "input_audio_buffer.append", "audio": base64.b64encode(audio).decode()})

    async def take(self, message: dict[str, Any]) -> None:
        """See `SocketLine`: the caller's speech stops the player, as the protocol leaves to its clients."""
        if message["type"] == "response.output_audio.delta":
            audio = np.frombuffer(base64.b64decode(message["delta"]), "<i2")
            self.hear((audio / 32768).astype(np.float32))
        elif message["type"] == "input_audio_buffer.speech_started":
            self.clear()
        else:
            note(self, message)
