"""The service as a whole: health, metrics, refusals, bad input on every door, isolation, nothing left behind."""

import asyncio
import base64
import contextlib
import json
import random

import aiohttp
import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Server, recording, start_server, stop_server
from transport import g711

pytestmark = pytest.mark.models


def start_message(stream: str = "MZ1", **parameters: str) -> str:
    form = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
    start = {"streamSid": stream, "callSid": "CA1", "mediaFormat": form, "customParameters": parameters}
    return json.dumps({"event": "start", "start": start})


def media(pcm: np.ndarray) -> str:
    return json.dumps(
        {"event": "media", "media": {"track": "inbound", "payload": base64.b64encode(g711.encode(pcm)).decode()}}
    )


async def twilio_call(socket: aiohttp.ClientWebSocketResponse, pcm: np.ndarray, heard: list[bytes]) -> None:
    """Send 8 kHz audio at real time; keep what comes back."""

    async def listen() -> None:
        async for message in socket:
            data = json.loads(message.data)
            if data["event"] == "media":
                heard.append(base64.b64decode(data["media"]["payload"]))
            elif data["event"] == "mark":
                await socket.send_str(json.dumps({"event": "mark", "mark": data["mark"]}))

    loop = asyncio.get_running_loop()
    listener = loop.create_task(listen())
    begin = loop.time()
    for i in range(0, len(pcm) - 159, 160):
        await asyncio.sleep(max(0, begin + i / 8000 - loop.time()))
        await socket.send_str(media(pcm[i : i + 160]))
    listener.cancel()


def silence(seconds: float) -> np.ndarray:
    return np.zeros(int(8000 * seconds), np.float32)


async def test_a_telephone_caller_is_greeted_and_answered(server: Server) -> None:
    heard: list[bytes] = []
    async with aiohttp.ClientSession() as http, http.ws_connect(server.url("/twilio")) as socket:
        await socket.send_str(json.dumps({"event": "connected", "protocol": "Call"}))
        await socket.send_str(start_message())
        await twilio_call(socket, silence(3.5), heard)
        greeted = len(heard)
        assert greeted * 0.02 > 1.0
        await twilio_call(socket, np.concatenate([recording("sb_spk1_snt5", 8000), silence(4)]), heard)
        assert (len(heard) - greeted) * 0.02 > 0.5
        await socket.send_str(json.dumps({"event": "stop"}))


async def test_health_and_metrics_tell_what_happened(server: Server) -> None:
    assert server.get("/healthz")[0] == 200
    assert server.get("/readyz") == (200, '{"status": "ready"}')
    text = server.get("/metrics")[1]
    for name in (
        "halfsecond_stage_seconds_bucket",
        "halfsecond_voice_to_voice_seconds_count",
        "halfsecond_turns_total",
        "halfsecond_calls_active",
        "halfsecond_event_loop_lag_seconds",
    ):
        assert name in text
    turns = [json.loads(line) for line in server.log.read_text().splitlines() if '"event": "turn"' in line]
    assert turns
    assert {"endpoint_ms", "asr_final_ms", "llm_first_token_ms", "tts_first_audio_ms", "voice_to_voice_ms"} <= turns[
        0
    ].keys()
    assert "part of the week" not in server.log.read_text(), "what callers say is not logged"


async def test_two_calls_at_once_do_not_hear_each_other(server: Server) -> None:
    async def ask(name: str, number: str) -> str:
        async with aiohttp.ClientSession() as http, http.ws_connect(server.url("/v1/realtime")) as socket:
            instructions = f"The caller's secret word is {name}. Answer in one short sentence."
            session = {
                "type": "realtime",
                "output_modalities": ["text"],
                "instructions": instructions,
                "temperature": 0,
            }
            await socket.send_json({"type": "session.update", "session": session})
            content = [{"type": "input_text", "text": f"Please repeat after me: {number}."}]
            await socket.send_json(
                {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": content}}
            )
            await socket.send_json({"type": "response.create"})
            text = ""
            async with asyncio.timeout(30):
                async for message in socket:
                    event = json.loads(message.data)
                    text += event.get("delta", "") if event["type"] == "response.output_text.delta" else ""
                    if event["type"] == "response.done":
                        return text
            return text

    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(ask("banana", "seven seven seven"))
        second = tasks.create_task(ask("mountain", "four four four"))
    assert "mountain" not in first.result().lower()
    assert "four" not in first.result().lower()
    assert "banana" not in second.result().lower()
    assert "seven" not in second.result().lower()


async def test_a_full_house_refuses_at_once_and_says_when_to_come_back(server: Server) -> None:
    async with aiohttp.ClientSession() as http, contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(http.ws_connect(server.url("/v1/realtime")))
        for path in ("/v1/realtime", "/twilio"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect(server.url(path))
            assert refused.value.status == 503
            assert int(refused.value.headers["Retry-After"]) >= 1
    await server.idle()


@pytest.mark.slow
async def test_calls_dropped_at_random_moments_leave_nothing_behind(server: Server) -> None:
    process = psutil.Process(server.pid)
    dice = random.Random(5)

    async def one_call(http: aiohttp.ClientSession, speech: np.ndarray) -> None:
        try:
            async with http.ws_connect(server.url("/twilio")) as socket:
                await socket.send_str(start_message())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(dice.uniform(0.0, 5.0)):
                        await twilio_call(socket, speech, [])
                if dice.random() < 0.5:
                    socket._response.connection.transport.abort()
        except (aiohttp.ClientError, ConnectionError, AttributeError):
            pass

    async def rounds(count: int) -> None:
        speech = np.concatenate(
            [recording("lk_hello", 8000), silence(0.7), recording("sb_spk1_snt1", 8000), silence(3)]
        )
        async with aiohttp.ClientSession() as http:
            for _ in range(count):
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(3):
                        tasks.create_task(one_call(http, speech))
        await server.idle()
        await asyncio.sleep(1.0)

    await rounds(2)
    threads, files, memory = process.num_threads(), process.num_fds(), process.memory_info().rss
    await rounds(4)
    assert process.num_threads() <= threads
    assert process.num_fds() <= files + 2
    assert process.memory_info().rss < memory + 60e6


BAD = st.one_of(
    st.binary(max_size=80),
    st.text(max_size=80),
    st.dictionaries(st.sampled_from(["type", "event", "session", "audio", "media", "start"]), st.text(max_size=10)).map(
        json.dumps
    ),
)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(["/v1/realtime", "/twilio"]), messages=st.lists(BAD, min_size=1, max_size=5))
def test_malformed_messages_never_take_the_service_down(server: Server, path: str, messages: list[bytes | str]) -> None:
    async def scenario() -> None:
        async with aiohttp.ClientSession() as http, http.ws_connect(server.url(path)) as socket:
            for message in messages:
                if socket.closed:
                    break
                with contextlib.suppress(ConnectionError):
                    await (socket.send_bytes(message) if isinstance(message, bytes) else socket.send_str(message))
        async with http.get(server.url("/readyz")) if not http.closed else aiohttp.ClientSession() as _:
            pass

    asyncio.run(scenario())
    assert server.get("/readyz")[0] == 200


async def test_a_message_too_large_closes_that_connection_only(server: Server) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(server.url("/v1/realtime")) as other:
        async with http.ws_connect(server.url("/v1/realtime")) as socket:
            await socket.receive()
            with contextlib.suppress(ConnectionError):
                await socket.send_str("x" * (9 << 20))
            async with asyncio.timeout(10):
                message = await socket.receive()
            assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        await other.send_str("{")
        kinds = [json.loads((await other.receive()).data)["type"] for _ in range(2)]
        assert kinds == ["session.created", "error"]


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}])
async def test_other_web_pages_cannot_reach_a_service_on_this_machine(server: Server, headers: dict[str, str]) -> None:
    async with aiohttp.ClientSession() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(server.url("/v1/realtime"), headers=headers)
        assert refused.value.status == 403
        async with http.post(server.url("/v1/realtime/calls"), data="v=0", headers=headers) as answer:
            assert answer.status == 403


async def test_a_key_is_asked_for_on_every_door_that_leads_to_a_call(tmp_path) -> None:
    process, keyed = await asyncio.to_thread(start_server, tmp_path, HALFSECOND_API_KEY="open-sesame")
    try:
        async with aiohttp.ClientSession() as http:
            for path in ("/", "/healthz", "/readyz"):
                async with http.get(keyed.url(path)) as answer:
                    assert answer.status == 200
            for headers in ({}, {"Authorization": "Bearer wrong"}):
                async with http.get(keyed.url("/metrics"), headers=headers) as answer:
                    assert answer.status == 401
                async with http.post(keyed.url("/v1/realtime/calls"), data="v=0", headers=headers) as answer:
                    assert answer.status == 401
                with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                    await http.ws_connect(keyed.url("/v1/realtime"), headers=headers)
                assert refused.value.status == 401
            good = {"Authorization": "Bearer open-sesame"}
            async with http.ws_connect(keyed.url("/v1/realtime"), headers=good) as socket:
                assert json.loads((await socket.receive()).data)["type"] == "session.created"
            protocols = ["realtime", "openai-insecure-api-key.open-sesame"]
            async with http.ws_connect(keyed.url("/v1/realtime"), protocols=protocols) as socket:
                assert json.loads((await socket.receive()).data)["type"] == "session.created"
            async with http.ws_connect(keyed.url("/twilio")) as socket:
                await socket.send_str(start_message())
                assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
            async with http.ws_connect(keyed.url("/twilio")) as socket:
                await socket.send_str(start_message(api_key="open-sesame"))
                assert json.loads((await socket.receive()).data)["event"] == "media"
        assert "open-sesame" not in keyed.log.read_text()
    finally:
        assert await asyncio.to_thread(stop_server, process) == 0


async def test_the_voice_engine_is_chosen_by_configuration(tmp_path) -> None:
    flags = ("--tts.engine", "kokoro", "--tts.voice", "zf_xiaobei", "--asr.language", "zh")
    greeting = {"HALFSECOND_CALL__GREETING": "您好，请问有什么可以帮您？"}
    process, chinese = await asyncio.to_thread(start_server, tmp_path, *flags, **greeting)
    try:
        facts = json.loads(chinese.get("/v1/console")[1])
        assert len(facts["voices"]) == 54
        assert (facts["voice"], facts["language"]) == ("zf_xiaobei", "zh")
        heard: list[bytes] = []
        async with aiohttp.ClientSession() as http, http.ws_connect(chinese.url("/twilio")) as socket:
            await socket.send_str(start_message())
            await twilio_call(socket, silence(3.0), heard)
        assert len(heard) * 0.02 > 1.0
        assert np.abs(g711.decode(b"".join(heard))).max() > 0.05
    finally:
        assert await asyncio.to_thread(stop_server, process) == 0
