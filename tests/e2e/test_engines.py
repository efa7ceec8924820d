"""The real engines one by one: what they say, and that they survive what goes wrong."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import soxr
from aiohttp import web

from asr.guards import loops
from asr.recognizer import DecodeRequest
from asr.whisper import WhisperRecognizer
from budget.errors import ConfigError, EngineError, ModelError
from budget.scheduler import Scheduler
from budget.work import Urgency
from llm.chat import Message, ReplyOptions
from llm.llama import LlamaModel
from llm.openai import OpenAiModel
from llm.prompt import SYSTEM_PROMPT
from tests.conftest import eventually, recording
from tts.kokoro import LANGUAGES, KokoroSynthesizer, Styles, to_kokoro
from tts.kokoro_onnx import OnnxKokoro
from tts.piper import PiperSynthesizer
from tts.speech import Voice
from voice.catalogue import CATALOGUE
from voice.config import load_settings
from voice.warmup import check_recognizer

pytestmark = pytest.mark.models
MODELS: Path = load_settings(None).models.directory


@pytest.fixture(scope="module")
def whisper() -> WhisperRecognizer:
    return WhisperRecognizer(CATALOGUE.folder("whisper-base", MODELS), Scheduler("asr"), threads=2)


def hear(whisper: WhisperRecognizer, pcm: np.ndarray, language: str = "en", **options: bool) -> str:
    seconds = len(pcm) / 16_000
    return whisper.decode_now(DecodeRequest(pcm.astype(np.float32), language, seconds, **options)).text.strip()


def plain(text: str) -> str:
    return re.sub(r"[^\w ]", "", text.lower()).strip()


async def test_whisper_passes_its_own_start_up_check(whisper: WhisperRecognizer) -> None:
    await check_recognizer(whisper)


def test_a_recogniser_that_hears_nothing_is_not_let_into_service() -> None:
    class Deaf:
        async def decode(self, *_: object, **__: object) -> object:
            from asr.transcript import Transcript

            return Transcript("")

    with pytest.raises(EngineError, match="does not work on this machine"):
        asyncio.run(check_recognizer(Deaf()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("en_living_room_lamp", "turn on the living room lamp"),
        ("sb_spk1_snt1", "the child almost hurt the small dog"),
        ("en_lj002-0020", "in 1813"),
        (
            "jfk",
            "and so my fellow americans ask not what your country can do for you ask what you can do for your country",
        ),
    ],
)
def test_english_words(whisper: WhisperRecognizer, name: str, text: str) -> None:
    assert plain(hear(whisper, recording(name))) == text


def test_chinese_in_simplified_characters(whisper: WhisperRecognizer) -> None:
    assert "交易几乎" in hear(whisper, recording("zh_aishell_S0764W0121"), "zh")


def test_the_language_is_detected_when_asked(whisper: WhisperRecognizer) -> None:
    pcm = recording("fr_fleurs_0")
    found = whisper.decode_now(DecodeRequest(pcm, "auto", 9.0))
    assert found.language == "fr"
    assert {"en", "zh", "fr", "de"} <= whisper.languages


def test_word_times_follow_the_speech(whisper: WhisperRecognizer) -> None:
    found = whisper.decode_now(DecodeRequest(recording("jfk"), "en", 11.0, want_words=True))
    times = {plain(word.text): word for word in found.words}
    assert "".join(word.text for word in found.words) == found.text
    assert times["americans"].start == pytest.approx(1.7, abs=0.6)
    assert times["ask"].start == pytest.approx(8.2, abs=1.0)
    assert all(a.start <= b.start for a, b in zip(found.words, found.words[1:], strict=False))


@pytest.mark.parametrize("seconds", [0.02, 0.3, 1.3, 1.55, 2.5, 29.9])
def test_no_length_of_audio_breaks_the_recogniser(whisper: WhisperRecognizer, seconds: float) -> None:
    pcm = np.random.default_rng(0).normal(0, 0.001, int(16_000 * seconds)).astype(np.float32)
    text = hear(whisper, pcm)
    assert not loops(text)


def test_a_folder_without_a_model_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="can't be loaded"):
        WhisperRecognizer(tmp_path, Scheduler("asr"))
    with pytest.raises(ModelError, match="models pull"):
        CATALOGUE.folder("whisper-base", tmp_path)


async def test_llama_streams_remembers_its_prompt_and_stops_when_closed() -> None:
    model = LlamaModel(CATALOGUE.file("smollm2-135m", MODELS), slots=2, context=1024, threads=2)
    try:
        await model.warm()
        session, other = model.open(), model.open()
        assert session is not None
        assert other is not None
        assert model.open() is None, "a third call finds no place"
        messages = [Message("system", SYSTEM_PROMPT), Message("user", "What is the capital of France?")]
        await session.prefill(messages)
        whole = await session.whole("What is the capital of France?")
        cut = await session.whole("I would like a table for.")
        assert whole is not None
        assert cut is not None
        assert cut < 0.05 < whole, "it knows a whole sentence from one that goes on"
        deltas = [delta async for delta in session.reply(messages, ReplyOptions(0.0, 40))]
        assert len(deltas) > 3
        assert "Paris" in "".join(deltas)
        endless = session.reply([Message("user", "Count from one to one thousand.")], ReplyOptions(0.0, 900))
        async for _ in endless:
            break
        loop = asyncio.get_running_loop()
        began = loop.time()
        await endless.aclose()
        async for _ in session.reply(messages, ReplyOptions(0.0, 1)):
            pass
        assert loop.time() - began < 5, "the abandoned reply does not run on to its 900 tokens"
        await other.close()
        await session.close()
        assert model.open() is not None
    finally:
        await model.close()


async def test_llama_says_when_there_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="models pull"):
        LlamaModel(tmp_path / "none.gguf", slots=1, context=512, threads=1)


class ChatServer:
    """An OpenAI-compatible server that streams, breaks or refuses, and sees when its client leaves."""

    def __init__(self) -> None:
        self.sent, self.gone, self.broken, self.key = 0, False, False, ""

    async def completions(self, request: web.Request) -> web.StreamResponse:
        self.key = request.headers["Authorization"]
        body = await request.json()
        if body["model"] == "missing":
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for word in [" word"] * (body["max_tokens"] if body["max_tokens"] < 5 else 500):
                chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
                chunk["choices"] = [{"index": 0, "delta": {"content": word}, "finish_reason": None}]
                await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.sent += 1
                if self.broken and self.sent >= 3:
                    request.transport.abort()
                await asyncio.sleep(0.005)
            await response.write(b"data: [DONE]\n\n")
        except (ConnectionError, asyncio.CancelledError):
            self.gone = True
            raise
        return response


@pytest.fixture
async def chat_server():
    serving = ChatServer()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", serving.completions)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield serving, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


async def test_any_openai_compatible_server_streams_and_is_cancelled(chat_server) -> None:
    serving, url = chat_server
    model = OpenAiModel(url, "server-key", "m")
    await model.warm()
    session = model.open()
    assert session is not None
    reply = session.reply([Message("user", "Hi")], ReplyOptions(max_tokens=500))
    got = [await anext(reply) for _ in range(3)]
    assert got == [" word"] * 3
    await reply.aclose()
    await eventually(lambda: serving.gone)
    assert serving.sent < 400
    assert serving.key == "Bearer server-key"
    await model.close()


async def test_a_server_that_breaks_or_refuses_is_an_engine_error(chat_server) -> None:
    serving, url = chat_server
    serving.broken = True
    session = OpenAiModel(url, "", "m").open()
    assert session is not None
    with pytest.raises(EngineError):
        async for _ in session.reply([Message("user", "Hi")], ReplyOptions(max_tokens=500)):
            pass
    with pytest.raises(EngineError, match="no such model"):
        await OpenAiModel(url, "", "missing").warm()
    with pytest.raises(EngineError):
        await OpenAiModel("http://127.0.0.1:9/v1", "", "m").warm()
    with pytest.raises(ConfigError, match="base_url"):
        OpenAiModel("", "", "m")


async def spoken(synthesizer: object, text: str, voice: Voice) -> np.ndarray:
    return np.concatenate([pcm async for pcm in synthesizer.speak(text, voice)])


async def test_piper_speaks_what_whisper_hears(whisper: WhisperRecognizer) -> None:
    piper = PiperSynthesizer(CATALOGUE.file("piper-joe", MODELS))
    pcm = await spoken(piper, "Sunday is the best part of the week.", Voice())
    assert plain(hear(whisper, soxr.resample(pcm, piper.rate, 16_000))) == "sunday is the best part of the week"
    slow = await spoken(piper, "Sunday is the best part of the week.", Voice(speed=0.7))
    assert len(slow) > 1.2 * len(pcm)
    await piper.close()


async def test_piper_that_dies_is_restarted_and_the_clause_is_spoken() -> None:
    piper = PiperSynthesizer(CATALOGUE.file("piper-joe", MODELS))
    await piper.warm()
    for _ in range(2):
        os.kill(piper.process.pid, signal.SIGKILL)
        assert len(await spoken(piper, "I am still here.", Voice())) > 8000
    assert piper.process.restarts == 2
    await piper.close()
    assert piper.process.pid is None


async def test_an_abandoned_clause_does_not_leak_into_the_next() -> None:
    piper = PiperSynthesizer(CATALOGUE.file("piper-joe", MODELS))
    await piper.warm()
    short = await spoken(piper, "Yes.", Voice())
    long = piper.speak("This is a long sentence. And another one follows it. And a third.", Voice())
    await anext(long)
    await long.aclose()
    assert len(await spoken(piper, "Yes.", Voice())) < 2 * len(short)
    await piper.close()


async def test_a_clause_that_somebody_waits_for_is_not_held_up_by_one_that_is_not_due_yet() -> None:
    piper = PiperSynthesizer(CATALOGUE.file("piper-joe", MODELS))
    await piper.warm()
    done: list[str] = []

    async def say(name: str, text: str, due_in: float) -> None:
        deadline = asyncio.get_running_loop().time() + due_in
        async for _ in piper.speak(text, Voice(), deadline=deadline):
            pass
        done.append(name)

    async with asyncio.TaskGroup() as both:
        both.create_task(say("later", "a long sentence that goes on and on and on " * 6, due_in=5.0))
        await asyncio.sleep(0.05)
        both.create_task(say("now", "Yes.", due_in=0.0))
    assert done == ["now", "later"]
    await piper.close()


@pytest.fixture
async def kokoro() -> AsyncIterator[KokoroSynthesizer]:
    folder = CATALOGUE.folder("kokoro", MODELS)
    styles = Styles(folder / "voices")
    synthesizer = KokoroSynthesizer(OnnxKokoro(folder / "kokoro.onnx", styles, Scheduler("tts")), styles)
    yield synthesizer
    await synthesizer.close()


@pytest.mark.parametrize(
    ("voice", "language", "text", "heard"),
    [
        ("af_heart", "en", "The capital of France is Paris.", "capital of france is paris"),
        ("bm_george", "en", "Good morning, how are you today?", "good morning how are you today"),
        ("zf_xiaobei", "zh", "今天天气很好，我们去公园吧。", "今天天气很好"),
        ("zm_yunxi", "zh", "我想喝一杯热茶。", "热茶"),
    ],
)
async def test_kokoro_speaks_what_whisper_hears(
    whisper: WhisperRecognizer, kokoro: KokoroSynthesizer, voice: str, language: str, text: str, heard: str
) -> None:
    pcm = await spoken(kokoro, text, Voice(voice, language))
    assert heard in plain(hear(whisper, soxr.resample(pcm, 24_000, 16_000), language))


async def test_kokoro_has_all_its_voices_and_chooses_one_by_language(kokoro: KokoroSynthesizer) -> None:
    assert len(kokoro.voices()) == 54
    assert {voice[0] for voice in kokoro.voices()} == set(LANGUAGES)
    assert len(await spoken(kokoro, "你好。", Voice("", "zh"))) > 5000


def test_espeaks_phonemes_become_kokoros() -> None:
    assert to_kokoro("həlˈoʊ wˈɜːld", "a") == "həlˈO wˈɜɹld"
    assert to_kokoro("ɡˈəʊ", "b") == "ɡˈQ"


async def test_the_scheduler_serves_a_final_decode_before_partials(whisper: WhisperRecognizer) -> None:
    pcm, order = recording("lk_hello"), []

    async def decode(name: str, urgency: Urgency, final: bool) -> None:
        await whisper.decode(DecodeRequest(pcm, "en", 1.0, final=final), urgency)
        order.append(name)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(decode("running", Urgency.FIRST_AUDIO, True))
        await asyncio.sleep(0.02)
        tasks.create_task(decode("partial", Urgency.PARTIAL, False))
        await asyncio.sleep(0.02)
        tasks.create_task(decode("final", Urgency.FIRST_AUDIO, True))
    assert order.index("final") < order.index("partial")
