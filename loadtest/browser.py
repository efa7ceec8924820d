"""A caller on OpenAI Realtime: 16 bit PCM at 24 kHz over a WebSocket, as a browser's client sends it."""

import base64
import json

import numpy as np

from loadtest.line import Line, Pcm


class Browser(Line):
    """One call, without a greeting: nobody asks for one."""

    rate = 24_000
    path = "/v1/realtime"

    async def open(self) -> None:
        """See `Line`: nothing has to be said."""

    async def close(self) -> None:
        """See `Line`: nothing has to be said."""

    async def send(self, pcm: Pcm) -> None:
        """See `Line`."""
        audio = (np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes()
        message = {"type": "input_audio_buffer.append", "audio": base64.b64encode(audio).decode()}
        await self._socket.send(json.dumps(message))

    async def listen(self) -> None:
        """See `Line`: the caller's speech stops the player, as the protocol leaves to its clients."""
        async for message in self._socket:
            event = json.loads(message)
            if event["type"] == "response.output_audio.delta":
                audio = np.frombuffer(base64.b64decode(event["delta"]), "<i2")
                self.hear((audio / 32768).astype(np.float32))
            elif event["type"] == "input_audio_buffer.speech_started":
                self.clear()
