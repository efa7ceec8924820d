"""Telephone lines with the real service: Asterisk's AudioSocket by a byte-exact peer, and the records of calls."""

import asyncio
import json
import os
import signal
import socket
import struct
import urllib.request
from pathlib import Path
from uuid import UUID

import aiohttp
import av
import numpy as np
import pytest

from tests.conftest import Server, eventually, recording, start_server, stop_server
from tests.e2e.test_service import silence, start_message, twilio_call
from transport.frame import to_pcm16

pytestmark = pytest.mark.models

CALL = UUID("40325ec2-5efd-4bd3-805f-53576e581d13")
KINDS = {8_000: 0x10, 16_000: 0x12, 48_000: 0x16}


def message(kind: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BH", kind, len(payload)) + payload


class Asterisk:
    """What `app_audiosocket` does: names the call, sends 20 ms every 20 ms, reads what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: int) -> None:
        self._reader, self._writer, self.rate = reader, writer, rate
        self.heard: list[bytes] = []
        self.hung_up = False
        self._listener = asyncio.get_running_loop().create_task(self._listen())

    @classmethod
    async def dial(cls, server: Server, rate: int = 8_000) -> "Asterisk":
        reader, writer = await asyncio.open_connection("127.0.0.1", server.audiosocket)
        writer.write(message(0x01, CALL.bytes))
        return cls(reader, writer, rate)

    async def say(self, pcm: np.ndarray) -> None:
        """Send audio at real time; what comes meanwhile is kept."""
        loop = asyncio.get_running_loop()
        begin, frame = loop.time(), self.rate // 50
        for i in range(0, len(pcm) - frame + 1, frame):
            await asyncio.sleep(max(0, begin + i / self.rate - loop.time()))
            self._writer.write(message(KINDS[self.rate], to_pcm16(pcm[i : i + frame])))

    def press(self, key: str) -> None:
        self._writer.write(message(0x03, key.encode()))

    def sounding(self, since: int = 0) -> float:
        """Seconds of audio, not silence, since the frame of that number."""
        return 0.02 * sum(np.abs(np.frombuffer(frame, "<i2")).max() > 300 for frame in self.heard[since:])

    async def _listen(self) -> None:
        while True:
            try:
                kind, length = struct.unpack(">BH", await self._reader.readexactly(3))
            except asyncio.IncompleteReadError:
                return
            payload = await self._reader.readexactly(length)
            if kind == 0x00:
                self.hung_up = True
                return
            assert (kind, length) == (KINDS[self.rate], self.rate // 50 * 2)
            self.heard.append(payload)

    async def hang_up(self) -> None:
        self._writer.write(message(0x00))
        self._writer.write_eof()
        await self.wait_for_hang_up()

    async def wait_for_hang_up(self) -> None:
        async with asyncio.timeout(10):
            await self._listener
        self._writer.close()


def quiet(seconds: float, rate: int) -> np.ndarray:
    return np.zeros(int(rate * seconds), np.float32)


def calls(server: Server, path: str = "") -> dict:
    return json.loads(server.get(f"/v1/calls{path}")[1])


@pytest.mark.parametrize("rate", sorted(KINDS))
async def test_asterisk_is_greeted_and_answered_at_its_own_rate(server: Server, rate: int) -> None:
    asterisk = await Asterisk.dial(server, rate)
    await asterisk.say(quiet(3.5, rate))
    assert asterisk.sounding() > 0.8, "greeted"
    assert len(asterisk.heard) == pytest.approx(175, abs=25), "silence is sent where nothing is said"
    before = len(asterisk.heard)
    await asterisk.say(np.concatenate([recording("sb_spk1_snt5", rate), quiet(5, rate)]))
    assert asterisk.sounding(before) > 0.5, "answered"
    await asterisk.hang_up()
    await server.idle()
    call = calls(server)["calls"][0]
    assert (call["transport"], call["about"]["uuid"], call["reason"]) == ("audiosocket", str(CALL), "caller hung up")
    assert call["turns"] == 1


async def test_keys_on_an_asterisk_line_are_answered(server: Server) -> None:
    asterisk = await Asterisk.dial(server)
    await asterisk.say(quiet(3.0, 8_000))
    before = len(asterisk.heard)
    for key in "42#":
        asterisk.press(key)
    await asterisk.say(quiet(4.0, 8_000))
    assert asterisk.sounding(before) > 0.3
    await asterisk.hang_up()
    await server.idle()
    turns = calls(server, "/" + calls(server)["calls"][0]["id"])["turns"]
    assert [turn["caller"] for turn in turns] == ["[keys: 42]"]


async def test_what_is_no_audiosocket_is_closed_and_disturbs_nobody(server: Server) -> None:
    for data in (b"GET / HTTP/1.1\r\n\r\n", message(0x10, bytes(320)), message(0x01, b"short"), message(0x00), b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.audiosocket)
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(10):
            assert (await reader.read()) in (b"", AUDIO_SOCKET_HANG_UP)
        writer.close()
    assert server.metric("halfsecond_calls_active") == 0


AUDIO_SOCKET_HANG_UP = message(0x00)


async def test_asterisk_is_told_at_once_when_there_is_no_place_and_the_refusal_is_recorded(tmp_path) -> None:
    process, full = await asyncio.to_thread(start_server, tmp_path, "--call.max_calls", "1")
    try:
        first = await Asterisk.dial(full)
        await first.say(quiet(0.5, 8_000))
        second = await Asterisk.dial(full)
        await second.say(quiet(0.1, 8_000))
        await second.wait_for_hang_up()
        assert second.hung_up
        assert not second.heard
        await first.hang_up()
        await full.idle()
        kept = calls(full)["calls"]
        assert {(call["refused"], call["reason"]) for call in kept} == {
            (True, "at_capacity"),
            (False, "caller hung up"),
        }
    finally:
        assert await asyncio.to_thread(stop_server, process) == 0


async def test_a_recorded_call_is_listed_shown_heard_and_deleted(tmp_path) -> None:
    process, keeping = await asyncio.to_thread(start_server, tmp_path, "--records.audio", "true")
    try:
        heard: list[bytes] = []
        async with aiohttp.ClientSession() as http, http.ws_connect(keeping.url("/twilio")) as wire:
            await wire.send_str(start_message(From="+4930123456", To="100"))
            await twilio_call(wire, silence(3.0), heard)
            await twilio_call(wire, np.concatenate([recording("sb_spk1_snt5", 8000), silence(5)]), heard)
            await wire.send_str(json.dumps({"event": "stop"}))
        await keeping.idle()
        (call,) = calls(keeping)["calls"]
        assert (call["from"], call["to"], call["recording"], call["turns"]) == ("+4930123456", "100", True, 1)
        (turn,) = calls(keeping, "/" + call["id"])["turns"]
        assert turn["caller"]
        assert turn["said"]
        assert turn["timings"]["voice_to_voice_ms"] > 0
        file = tmp_path / "call.ogg"
        urllib.request.urlretrieve(keeping.url(f"/v1/calls/{call['id']}/recording"), file)
        with av.open(str(file)) as container:
            sound = np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)
            assert sound.shape[1] / container.streams.audio[0].rate == pytest.approx(call["seconds"], abs=1.0)
        assert (np.abs(sound) > 0.02).any(axis=1).tolist() == [True, True]
        async with aiohttp.ClientSession() as http:
            for expected in (204, 404):
                async with http.delete(keeping.url(f"/v1/calls/{call['id']}")) as answer:
                    assert answer.status == expected
        assert calls(keeping) == {"calls": [], "before": None}
        assert keeping.get(f"/v1/calls/{call['id']}/recording")[0] == 404
    finally:
        assert await asyncio.to_thread(stop_server, process) == 0


async def test_a_killed_service_has_kept_the_turns_that_ended(tmp_path) -> None:
    process, killed = await asyncio.to_thread(start_server, tmp_path)
    heard: list[bytes] = []
    async with aiohttp.ClientSession() as http, http.ws_connect(killed.url("/twilio")) as wire:
        await wire.send_str(start_message())
        await twilio_call(wire, np.concatenate([silence(3.0), recording("sb_spk1_snt5", 8000), silence(5)]), heard)
        await eventually(lambda: killed.metric("halfsecond_voice_to_voice_seconds_count") >= 1)
        await asyncio.sleep(0.1)  # the metric is counted before the turn is on the disk
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process, again = await asyncio.to_thread(start_server, tmp_path)
    try:
        (call,) = calls(again)["calls"]
        assert (call["reason"], call["turns"]) == ("service died", 1)
    finally:
        assert await asyncio.to_thread(stop_server, process) == 0


@pytest.mark.parametrize("path", ["?limit=0", "?limit=x", "?limit=1000", "?before=../x"])
def test_wrong_questions_for_records_are_told(server: Server, path: str) -> None:
    assert server.get(f"/v1/calls{path}")[0] == 400


@pytest.mark.parametrize("name", ["call_unknown", "..%2F..%2Fetc%2Fpasswd", "call_" + "x" * 200])
@pytest.mark.parametrize("what", ["", "/recording"])
def test_unknown_calls_are_not_found(server: Server, name: str, what: str) -> None:
    assert server.get(f"/v1/calls/{name}{what}")[0] == 404


def test_a_taken_port_that_was_asked_for_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RuntimeError, match=r"audiosocket\.port"):
            start_server(tmp_path, HALFSECOND_AUDIOSOCKET__PORT=str(taken.getsockname()[1]))


async def test_who_controls_a_call_may_end_it_with_a_goodbye(server: Server) -> None:
    asterisk = await Asterisk.dial(server)
    await asterisk.say(silence(3.0))
    greeted = len(asterisk.heard)
    name = json.loads(server.get("/v1/calls")[1])["calls"][0]["id"]
    async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as tasks:
        line = tasks.create_task(asterisk.say(silence(6.0)))

        async def control(what: str, **wish: str) -> tuple[int, dict]:
            async with http.post(server.url(f"/v1/calls/{name}/{what}"), json=wish) as answer:
                return answer.status, await answer.json()

        assert (await control("transfer", to="sip:a@example.net"))[1]["error"]["code"] == "unsupported"
        assert (await control("press", keys="hello"))[0] == 400
        assert await control("hangup", say="Goodbye, and thank you.") == (200, {"result": "ended"})
        await server.idle()
        assert (await control("hangup"))[0] == 404
        await line
    assert asterisk.hung_up
    assert asterisk.sounding(greeted) > 0.8, "the goodbye was heard"
    assert json.loads(server.get(f"/v1/calls/{name}")[1])["reason"] == "agent hung up"
