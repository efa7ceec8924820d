"""Loads the engines that the settings name, warms them and tells the ledger what each took."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np

from asr.background import SplitRecognizer
from asr.recognizer import Recognizer
from asr.step_down import StepDown
from asr.whisper import FINALS, PARTIALS, WhisperRecognizer
from budget.machine_memory import taken
from budget.memory import MemoryLedger
from budget.priority import bulk_threads
from budget.scheduler import Scheduler
from budget.work import Urgency, Work
from llm.chat import ChatModel
from llm.llama import LlamaModel
from llm.openai import OpenAiModel
from tts.kokoro import KokoroModel, KokoroSynthesizer, Styles
from tts.kokoro_onnx import OnnxKokoro
from tts.kokoro_torch import TorchKokoro
from tts.openers import OpenerMemory
from tts.piper import PiperSynthesizer
from tts.speech import Pcm, Synthesizer, Voice
from vad.silero import SileroDetector, load_session
from vad.smart_turn import SECONDS, SmartTurn
from vad.speech import RATE, SpeechDetector
from vad.webrtc import GatedDetector, WebRtcDetector
from voice.calibrate import calibrated
from voice.config import Settings
from voice.engines import Engines
from voice.model_paths import (
    kokoro_folder,
    kokoro_weights,
    llama_file,
    piper_file,
    smaller_whisper_folder,
    smart_turn_file,
    whisper_folder,
)
from voice.pause import SoundJudge
from voice.reply import Phrases
from voice.warmup import check_recognizer, warm_recognizer, warm_synthesizer

_BACKGROUND = 10
"""How nice partial transcripts are to the rest: they get a tenth of a core that somebody else wants."""


@asynccontextmanager
async def engines(settings: Settings, ledger: MemoryLedger, share: Work | None = None) -> AsyncIterator[Engines]:
    """Load every engine, warm it with its largest work and enter into the ledger what it took; free all at the end.

    One after the other, so that what each takes can be told. Their work counts in `share`. Raises
    `ModelError` or `EngineError`.
    """
    settings = await calibrated(settings)
    meter = _Meter(ledger)
    async with AsyncExitStack() as stack:
        recognizer: Recognizer = await asyncio.to_thread(_whisper, settings, whisper_folder(settings), share)
        stack.push_async_callback(asyncio.to_thread, recognizer.close)
        await _hears(recognizer)
        meter.took("whisper")
        if settings.asr.smaller:
            small = await asyncio.to_thread(_whisper, settings, smaller_whisper_folder(settings), share)
            stack.push_async_callback(asyncio.to_thread, small.close)
            await _hears(small)
            meter.took("smaller")
            recognizer = StepDown(recognizer, small)
        chat = await asyncio.to_thread(_chat, settings, share)
        stack.push_async_callback(chat.close)
        await chat.warm()
        meter.took("llama")
        synthesizer = OpenerMemory(_synthesizer(settings, share))
        stack.push_async_callback(synthesizer.close)
        await warm_synthesizer(synthesizer)
        phrases = await _phrases(settings, synthesizer)
        meter.took(settings.tts.engine)
        judge = None
        if settings.vad.turn_end == "meaning":
            turns = Scheduler("turn", limit=2 * settings.call.max_calls, share=share)
            stack.push_async_callback(asyncio.to_thread, turns.close)
            judge = await asyncio.to_thread(_judge, settings, turns)
            meter.took("smart-turn")
        yield Engines(recognizer, chat, synthesizer, _detectors(settings), judge, recognizer.languages, phrases)


class _Meter:
    """Tells the ledger what each engine took: by how much the processes' memory on its device grew since the last."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._where = {row.engine: row.device for row in ledger.rows()}
        self._before = {device.name: taken(device.name) for device in ledger.devices}

    def took(self, engine: str) -> None:
        """The engine is loaded and warm."""
        for device, before in self._before.items():
            now = self._before[device] = taken(device)
            if self._where.get(engine) == device and now is not None and before is not None:
                self._ledger.measured(engine, max(0, now - before))


async def _phrases(settings: Settings, synthesizer: Synthesizer) -> Phrases:
    call = settings.call_settings()
    texts = [text for text in (call.greeting, call.apology, call.filler) if text]
    return Phrases(call.sound, {text: await _spoken(synthesizer, text, call.sound) for text in texts})


def _whisper(settings: Settings, folder: Path, share: Work | None) -> SplitRecognizer | WhisperRecognizer:
    """Two instances on a processor; on a card one: nothing runs there by priority, and its memory is dear."""

    def instance(workers: int, nice: int = 0) -> WhisperRecognizer:
        scheduler = Scheduler("asr", workers=workers, share=share)
        with bulk_threads(nice):  # the runtime's threads only: one of Python's, so nice, would keep its lock for long
            return WhisperRecognizer(
                folder,
                scheduler,
                threads=settings.asr.threads,
                workers=workers,
                device=settings.asr.device,
                share=share,
            )

    if settings.asr.device == "cpu":
        return SplitRecognizer(instance(FINALS), instance(PARTIALS, _BACKGROUND))
    return instance(FINALS + PARTIALS)


async def _hears(recognizer: Recognizer) -> None:
    """Check that it does, and take the memory of its largest work."""
    await check_recognizer(recognizer)
    await warm_recognizer(recognizer, FINALS, PARTIALS)


def _chat(settings: Settings, share: Work | None) -> ChatModel:
    llm = settings.llm
    if llm.engine == "openai":
        return OpenAiModel(llm.base_url, llm.api_key.get_secret_value(), llm.model, timeout=llm.timeout)
    slots = settings.call.max_calls
    return LlamaModel(
        llama_file(settings),
        slots=slots,
        context=llm.context,
        threads=llm.threads,
        gpu_layers=llm.gpu_layers,
        share=share,
    )


def _synthesizer(settings: Settings, share: Work | None) -> Synthesizer:
    tts = settings.tts
    if tts.engine == "kokoro":
        return _kokoro(settings, share)
    return PiperSynthesizer(piper_file(settings), threads=tts.threads, device=tts.device, share=share)


def _kokoro(settings: Settings, share: Work | None) -> KokoroSynthesizer:
    tts, folder = settings.tts, kokoro_folder(settings)
    styles = Styles(folder / "voices")
    model: KokoroModel
    if tts.runtime == "torch":
        weights = kokoro_weights(settings)
        model = TorchKokoro(weights, folder / "voices", device=tts.device, threads=tts.threads or 1, share=share)
    else:
        queue = Scheduler("tts", share=share)
        model = OnnxKokoro(folder / "kokoro.onnx", styles, queue, threads=tts.threads, device=tts.device)
    return KokoroSynthesizer(model, styles)


def _detectors(settings: Settings) -> Callable[[], SpeechDetector]:
    """Makes each call its own detector."""
    if settings.vad.engine == "webrtc":
        return WebRtcDetector
    session = load_session()
    return lambda: GatedDetector(WebRtcDetector(), SileroDetector(session))


def _judge(settings: Settings, scheduler: Scheduler) -> SoundJudge:
    model = SmartTurn(smart_turn_file(settings), device=settings.vad.device)
    model.probability(np.zeros(SECONDS * RATE, np.float32))

    async def judge(pcm: Pcm) -> float:
        return await scheduler.run(partial(model.probability, pcm), Urgency.FIRST_AUDIO)

    return judge


async def _spoken(synthesizer: Synthesizer, text: str, voice: Voice) -> Pcm:
    chunks = [pcm async for pcm in synthesizer.speak(text, voice)]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.float32)
