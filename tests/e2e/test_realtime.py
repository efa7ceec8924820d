"""The Realtime WebSocket with the real `openai` client and the real models."""

import asyncio
import base64
import contextlib

import numpy as np
import pytest
from openai import AsyncOpenAI
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from loadtest.accuracy import seams
from tests.conftest import Server, manifest, recording

pytestmark = pytest.mark.models
SERVER_EVENT = TypeAdapter(RealtimeServerEvent)


def pcm16(pcm: np.ndarray) -> bytes:
    return (np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes()


@contextlib.asynccontextmanager
async def connected(server: Server):
    client = AsyncOpenAI(base_url=server.url("/v1"), websocket_base_url=server.url("/v1", "ws"), api_key="unused")
    async with client.realtime.connect(model="halfsecond") as connection:
        yield connection
    await client.close()


async def until(connection, kind: str, seen: list | None = None, timeout: float = 20):
    async with asyncio.timeout(timeout):
        while True:
            event = await connection.recv()
            check_schema(event)
            if seen is not None:
                seen.append(event)
            if event.type == kind:
                return event
            assert event.type != "error", event


def check_schema(event) -> None:
    """Every event of OpenAI's names must satisfy OpenAI's own types."""
    data = event.model_dump(exclude_unset=True)
    if not data["type"].startswith("halfsecond."):
        SERVER_EVENT.validate_python(data)


async def speak(connection, pcm: np.ndarray, *, tail: float = 1.0, pace: float = 1.0) -> None:
    """Send audio (24 kHz) in 20 ms pieces at real time, then silence."""
    whole = np.concatenate([pcm, np.zeros(int(24_000 * tail), np.float32)])
    loop = asyncio.get_running_loop()
    start = loop.time()
    for i in range(0, len(whole), 480):
        await asyncio.sleep(max(0, start + i / 24_000 * pace - loop.time()))
        await connection.input_audio_buffer.append(audio=base64.b64encode(pcm16(whole[i : i + 480])).decode())


async def test_a_spoken_question_is_heard_and_answered_by_voice(server: Server) -> None:
    async with connected(server) as connection:
        created = await until(connection, "session.created")
        assert created.session.audio.input.format.rate == 24000
        seen: list = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(speak(connection, recording("en_living_room_lamp", 24_000)))
            await until(connection, "response.done", seen)
        kinds = [event.type for event in seen]
        for earlier, later in (
            ("input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"),
            ("input_audio_buffer.committed", "conversation.item.input_audio_transcription.completed"),
            ("conversation.item.input_audio_transcription.completed", "response.created"),
            ("response.created", "response.output_audio.delta"),
            ("response.output_audio_transcript.delta", "response.output_audio_transcript.done"),
        ):
            assert kinds.index(earlier) < kinds.index(later)
        transcript = next(e for e in seen if e.type.endswith("transcription.completed")).transcript
        assert "living room lamp" in transcript.lower()
        audio = b"".join(base64.b64decode(e.delta) for e in seen if e.type == "response.output_audio.delta")
        assert np.abs(np.frombuffer(audio, "<i2")).max() > 2000
        turn = await until(connection, "halfsecond.turn")
        assert turn.outcome == "answered"
        assert turn.voice_to_voice_ms > 0
        assert {stage["stage"] for stage in turn.stages} == {"endpoint", "asr", "llm", "tts"}


async def test_a_text_item_is_answered_in_text_without_audio(server: Server) -> None:
    async with connected(server) as connection:
        await until(connection, "session.created")
        await connection.session.update(
            session={
                "type": "realtime",
                "output_modalities": ["text"],
                "instructions": "Answer in one short sentence.",
                "temperature": 0,  # the likeliest words: a small model that may choose talks of other towns too
            }
        )
        assert (await until(connection, "session.updated")).session.output_modalities == ["text"]
        content = [{"type": "input_text", "text": "What is the capital of France?"}]
        await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        await until(connection, "conversation.item.done")
        await connection.response.create()
        seen: list = []
        done = await until(connection, "response.done", seen)
        assert done.response.status == "completed"
        text = "".join(e.delta for e in seen if e.type == "response.output_text.delta")
        assert "paris" in text.lower()
        assert not any(e.type == "response.output_audio.delta" for e in seen)


async def test_speaking_over_the_agent_stops_it_and_keeps_only_what_was_heard(server: Server) -> None:
    async with connected(server) as connection:
        await until(connection, "session.created")
        content = [{"type": "input_text", "text": "Tell me a long story about a fox and a dog in the forest."}]
        await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        await connection.response.create(response={"max_output_tokens": 200})
        await until(connection, "response.output_audio.delta")
        await asyncio.sleep(1.0)
        seen: list = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(speak(connection, recording("sb_spk1_snt1", 24_000), tail=0.8))
            done = await until(connection, "response.done", seen)
            assert done.response.status == "cancelled"
            assert done.response.status_details.reason == "turn_detected"
            truncated = next(e for e in seen if e.type == "conversation.item.truncated")
            assert 0.3 <= truncated.audio_end_ms / 1000 <= 4
            heard = next(e for e in seen if e.type == "halfsecond.heard")
            whole = done.response.output[0].content[0].transcript
            assert whole.replace(" ", "").startswith(heard.text.replace(" ", ""))
            assert len(heard.text) < len(whole)
            after = [e for e in seen if e.type == "response.output_audio.delta"][-1:]
            assert not after or seen.index(after[0]) < seen.index(truncated)
            second = await until(connection, "response.done", timeout=30)
            assert second.response.status == "completed"


async def test_push_to_talk_answers_what_was_committed(server: Server) -> None:
    async with connected(server) as connection:
        await until(connection, "session.created")
        audio = {"input": {"turn_detection": None}}
        await connection.session.update(session={"type": "realtime", "audio": audio})
        updated = await until(connection, "session.updated")
        assert updated.session.audio.input.turn_detection is None
        pcm = pcm16(recording("ds_home", 24_000))
        await connection.input_audio_buffer.append(audio=base64.b64encode(pcm).decode())
        await connection.input_audio_buffer.commit()
        done = await until(connection, "conversation.item.input_audio_transcription.completed")
        assert "new home in the stars" in done.transcript.lower()
        await connection.response.create(response={"output_modalities": ["text"]})
        assert (await until(connection, "response.done")).response.status == "completed"


async def test_long_speech_is_transcribed_whole_even_when_sent_at_once(server: Server) -> None:
    async with connected(server) as connection:
        await until(connection, "session.created")
        audio = {
            "input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 1200, "create_response": False}}
        }
        await connection.session.update(session={"type": "realtime", "audio": audio})
        await until(connection, "session.updated")
        seen: list = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(speak(connection, recording("en_asterisk_demo-instruct", 24_000), tail=3.0, pace=0.3))
            done = await until(connection, "conversation.item.input_audio_transcription.completed", seen, timeout=90)
        reference = next(m["text"] for m in manifest() if m["file"] == "en_asterisk_demo-instruct.flac")
        rate, trouble = seams(reference, done.transcript)
        assert trouble == [], "said twice or lost at a seam"
        assert rate < 0.2
        deltas = "".join(e.delta for e in seen if e.type == "conversation.item.input_audio_transcription.delta")
        assert deltas.split() == done.transcript.split()


@pytest.mark.parametrize("form", ["audio/pcmu", "audio/pcma"])
async def test_g711_both_ways(server: Server, form: str) -> None:
    from transport import g711

    law = "mu" if form == "audio/pcmu" else "a"
    async with connected(server) as connection:
        await until(connection, "session.created")
        audio = {"input": {"format": {"type": form}}, "output": {"format": {"type": form}}}
        await connection.session.update(session={"type": "realtime", "audio": audio})
        await until(connection, "session.updated")
        pcm = np.concatenate([recording("sb_spk1_snt5", 8_000), np.zeros(8000, np.float32)])
        await connection.input_audio_buffer.append(audio=base64.b64encode(g711.encode(pcm, law)).decode())
        seen: list = []
        await until(connection, "response.done", seen)
        transcript = next(e for e in seen if e.type.endswith("transcription.completed")).transcript
        assert "best part of the week" in transcript.lower()
        audio_out = b"".join(base64.b64decode(e.delta) for e in seen if e.type == "response.output_audio.delta")
        assert len(audio_out) > 4000
        assert np.abs(g711.decode(audio_out, law)).max() > 0.05


async def test_chinese_speech_is_transcribed_in_simplified_characters(server: Server) -> None:
    async with connected(server) as connection:
        await until(connection, "session.created")
        vad = {"type": "server_vad", "create_response": False}
        audio = {"input": {"transcription": {"model": "whisper", "language": "zh"}, "turn_detection": vad}}
        await connection.session.update(session={"type": "realtime", "audio": audio})
        await until(connection, "session.updated")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(speak(connection, recording("zh_aishell_S0764W0121", 24_000), pace=0.5))
            done = await until(connection, "conversation.item.input_audio_transcription.completed")
        assert "甚至出现交易几乎" in done.transcript
