"""WebRTC with an aiortc client and the real models."""

import asyncio
import json
from fractions import Fraction

import aiohttp
import av
import numpy as np
import pytest
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription

from tests.conftest import Server, recording

pytestmark = pytest.mark.models


class Microphone(MediaStreamTrack):
    """Plays queued audio (48 kHz) at real time, silence otherwise."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.pcm = np.zeros(0, np.float32)
        self._sent = 0
        self._start: float | None = None

    async def recv(self) -> av.AudioFrame:
        loop = asyncio.get_running_loop()
        self._start = self._start or loop.time()
        await asyncio.sleep(max(0, self._start + self._sent / 48_000 - loop.time()))
        piece, self.pcm = self.pcm[:960], self.pcm[960:]
        piece = np.pad(piece, (0, 960 - len(piece)))
        frame = av.AudioFrame.from_ndarray((piece * 32767).astype(np.int16).reshape(1, -1), "s16", "mono")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, self._sent, Fraction(1, 48_000)
        self._sent += 960
        return frame


class Caller:
    """A peer that talks and keeps what it hears."""

    def __init__(self) -> None:
        self.peer = RTCPeerConnection()
        self.microphone = Microphone()
        self.events: asyncio.Queue[dict] = asyncio.Queue()
        self.levels: list[float] = []
        self.peer.addTrack(self.microphone)
        self.channel = self.peer.createDataChannel("oai-events")
        self.channel.on("message", lambda text: self.events.put_nowait(json.loads(text)))
        self.peer.on("track", self._listen)
        self._listener: asyncio.Task | None = None

    def _listen(self, track: MediaStreamTrack) -> None:
        async def run() -> None:
            while True:
                frame = await track.recv()
                self.levels.append(float(np.abs(frame.to_ndarray()).max()) / 32768)

        self._listener = asyncio.get_running_loop().create_task(run())

    async def call(self, server: Server, session: dict | None = None) -> str:
        await self.peer.setLocalDescription(await self.peer.createOffer())
        sdp = self.peer.localDescription.sdp
        async with aiohttp.ClientSession() as http:
            if session is None:
                request = http.post(
                    server.url("/v1/realtime/calls"), data=sdp, headers={"Content-Type": "application/sdp"}
                )
            else:
                request = http.post(server.url("/v1/realtime/calls"), json={"sdp": sdp, "session": session})
            async with request as answer:
                text = await answer.text()
                assert answer.status == 201, text
                await self.peer.setRemoteDescription(RTCSessionDescription(text, "answer"))
                return answer.headers["Location"]

    async def until(self, kind: str, seen: list[dict] | None = None, timeout: float = 45) -> dict:
        async with asyncio.timeout(timeout):
            while True:
                event = await self.events.get()
                if seen is not None:
                    seen.append(event)
                if event["type"] == kind:
                    return event

    async def close(self) -> None:
        if self._listener:
            self._listener.cancel()
        await self.peer.close()


async def test_a_call_over_webrtc_is_greeted_heard_answered_and_hung_up(server: Server) -> None:
    caller = Caller()
    try:
        where = await caller.call(server, {"type": "realtime", "halfsecond": {"greeting": "Hello there, caller."}})
        seen: list[dict] = []
        await caller.until("session.created", seen)
        greeting = await caller.until("response.done", seen)
        assert greeting["response"]["output"][0]["content"][0]["transcript"] == "Hello there, caller."
        kinds = [event["type"] for event in seen]
        assert kinds.index("output_audio_buffer.started") < kinds.index("response.output_audio_transcript.done")
        assert max(caller.levels) > 0.05
        caller.levels.clear()
        caller.microphone.pcm = recording("en_living_room_lamp", 48_000)
        heard = await caller.until("conversation.item.input_audio_transcription.completed")
        assert "living room lamp" in heard["transcript"].lower()
        assert (await caller.until("response.done"))["response"]["status"] == "completed"
        turn = await caller.until("halfsecond.turn")
        assert turn["outcome"] == "answered"
        assert max(caller.levels) > 0.05
        async with aiohttp.ClientSession() as http, http.post(server.url(where + "/hangup")) as answer:
            assert answer.status == 200
        await server.idle()
    finally:
        await caller.close()


async def test_speech_over_the_agent_silences_it_within_a_quarter_second(server: Server) -> None:
    caller = Caller()
    try:
        await caller.call(server)
        await caller.until("session.created")
        text = "Tell me a long story about a fox and a dog in the forest."
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        caller.channel.send(json.dumps({"type": "conversation.item.create", "item": item}))
        caller.channel.send(json.dumps({"type": "response.create", "response": {"max_output_tokens": 200}}))
        await caller.until("output_audio_buffer.started")
        await asyncio.sleep(1.2)
        caller.microphone.pcm = recording("sb_spk1_snt1", 48_000)
        await caller.until("input_audio_buffer.speech_started")
        count = len(caller.levels)
        await asyncio.sleep(0.5)
        loud = [level for level in caller.levels[count:] if level > 0.02]
        assert len(loud) * 0.02 <= 0.25
        await caller.until("output_audio_buffer.cleared")
    finally:
        await caller.close()


@pytest.mark.parametrize(
    "body",
    ["", "not sdp", "v=0\r\n", "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\nm=video 9 X 96\r\n", "m=" * 5000],
)
async def test_a_broken_offer_gets_a_400_that_says_so(server: Server, body: str) -> None:
    async with aiohttp.ClientSession() as http:
        async with http.post(
            server.url("/v1/realtime/calls"), data=body, headers={"Content-Type": "application/sdp"}
        ) as answer:
            assert answer.status == 400
            assert (await answer.json())["error"]["code"] == "invalid_offer"
        async with http.post(server.url("/v1/realtime/calls"), json={"sdp": body, "session": {"type": 3}}) as answer:
            assert answer.status == 400
    assert server.get("/readyz")[0] == 200
