"""The only place where parts are put together: load, warm, ready, serve, drain."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import numpy as np
import structlog

from asr.whisper import WhisperRecognizer
from budget.ids import new_id
from budget.priority import bulk_threads
from budget.scheduler import Scheduler
from budget.work import Urgency, Work
from llm.chat import ChatModel, ChatSession
from llm.llama import LlamaModel
from llm.openai import OpenAiModel
from transport.leg import CallLeg
from tts.kokoro import KokoroSynthesizer
from tts.openers import OpenerMemory
from tts.piper import PiperSynthesizer
from tts.speech import Pcm, Synthesizer, Voice
from vad.silero import SileroDetector, load_session
from vad.smart_turn import SmartTurn
from vad.speech import RATE, SpeechDetector
from vad.webrtc import GatedDetector, WebRtcDetector
from voice.calibrate import calibrated
from voice.call import Call
from voice.catalogue import CATALOGUE
from voice.config import Settings
from voice.engines import CallEngines, Engines
from voice.model_paths import llama_file, piper_file, whisper_folder
from voice.observe import Observer
from voice.pause import SoundJudge
from voice.reply import Phrases
from voice.warmup import check_recognizer

log = structlog.get_logger(__name__)

_DECODES = 2
"""Decodes at once: a final one beside a partial that has begun."""
_BULK = 5
"""How nice recognition is to the rest: tokens, clauses and the event loop take turns of a few milliseconds."""
DRAIN = 5.0
"""Seconds that calls get to end when the service stops."""


class CallHold:
    """A place for one call, kept from before the client is answered until the call is over."""

    def __init__(self, service: "Service", engines: Engines, chat: ChatSession) -> None:
        self._service = service
        self.engines, self.chat = engines, chat
        self._held = True

    async def release(self) -> None:
        """Give the place back; safe to call twice."""
        if self._held:
            self._held = False
            self._service.let_go()
            await self.chat.close()


class Service:
    """The running service: its engines and its calls."""

    def __init__(self, settings: Settings, observer: Observer) -> None:
        self.settings, self.observer = settings, observer
        self.engines: Engines | None = None
        """None until every engine is warm."""
        self.failure: str = ""
        self._calls: dict[str, Call] = {}
        self._held = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def ready(self) -> bool:
        """Whether calls can be taken."""
        return self.engines is not None

    @property
    def calls(self) -> int:
        """Calls in progress."""
        return len(self._calls)

    def hold(self) -> CallHold | None:
        """Reserve a place for one call at once; None, and counted as refused, if there is none."""
        engines = self.engines
        free = engines is not None and self._held < self.settings.call.max_calls
        chat = engines.chat.open() if engines is not None and free else None
        if engines is None or chat is None:
            self.observer.refused("not ready" if engines is None else "capacity")
            return None
        self._held += 1
        return CallHold(self, engines, chat)

    async def run(self, hold: CallHold, leg: CallLeg) -> None:
        """Run one call in its place over `leg`, to its end. The place is free afterwards."""
        own = CallEngines(
            hold.engines.recognizer,
            hold.engines.detector(),
            hold.engines.judge,
            hold.chat,
            hold.engines.synthesizer,
            hold.engines.phrases,
            hold.engines.languages,
        )
        call = Call(new_id("call"), leg, own, self.settings.call_settings(), self.observer)
        self._calls[call.call_id] = call
        self._idle.clear()
        self.observer.call_began(call.call_id, leg.kind)
        try:
            with structlog.contextvars.bound_contextvars(call_id=call.call_id):
                await call.run()
        except Exception:  # a bug in one call must not reach another: logged with its trace, the call ended
            log.exception("call broke", call_id=call.call_id)
            call.record.reason = call.record.reason or "internal error"
        finally:
            del self._calls[call.call_id]
            if not self._calls:
                self._idle.set()
            await hold.release()
            now = asyncio.get_running_loop().time()
            self.observer.call_ended(call.record, now - call.record.started)

    def let_go(self) -> None:
        """A place is free again."""
        self._held -= 1

    async def drain(self) -> None:
        """End all calls, politely and then at once."""
        for call in list(self._calls.values()):
            call.hang_up("service stopping")
        async with asyncio.timeout(DRAIN):
            await self._idle.wait()


@asynccontextmanager
async def engines(settings: Settings, share: Work | None = None) -> AsyncIterator[Engines]:
    """Load and warm every engine; free them at the end. Their work counts in `share`.

    Raises `ModelError` or `EngineError`.
    """
    settings = await calibrated(settings)
    async with AsyncExitStack() as stack:
        recognizer = await asyncio.to_thread(_recognizer, settings, share)
        stack.push_async_callback(asyncio.to_thread, recognizer.close)
        chat = await asyncio.to_thread(_chat, settings, share)
        stack.push_async_callback(chat.close)
        synthesizer = OpenerMemory(_synthesizer(settings, share))
        stack.push_async_callback(synthesizer.close)
        async with asyncio.TaskGroup() as warming:
            warming.create_task(chat.warm())
            warming.create_task(synthesizer.warm())
            warming.create_task(check_recognizer(recognizer))
        call = settings.call_settings()
        said = {
            text: await _spoken(synthesizer, text, call.sound)
            for text in (call.greeting, call.apology, call.filler)
            if text
        }
        phrases = Phrases(call.sound, said)
        judge = None
        if settings.vad.turn_end == "meaning":
            turns = Scheduler("turn", limit=2 * settings.call.max_calls, share=share)
            stack.push_async_callback(asyncio.to_thread, turns.close)
            judge = await asyncio.to_thread(_judge, settings, turns)
        yield Engines(recognizer, chat, synthesizer, _detectors(settings), judge, recognizer.languages, phrases)


def _recognizer(settings: Settings, share: Work | None) -> WhisperRecognizer:
    with bulk_threads(_BULK):
        return WhisperRecognizer(
            whisper_folder(settings),
            Scheduler("asr", workers=_DECODES, share=share),
            threads=settings.asr.threads,
            workers=_DECODES,
            device=settings.asr.device,
            share=share,
        )


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
        folder = tts.path or CATALOGUE.folder("kokoro", settings.models.directory)
        return KokoroSynthesizer(
            folder / "kokoro.onnx", folder / "voices", Scheduler("tts", share=share), threads=tts.threads
        )
    return PiperSynthesizer(piper_file(settings), threads=tts.threads, share=share)


def _detectors(settings: Settings) -> Callable[[], SpeechDetector]:
    """Makes each call its own detector."""
    if settings.vad.engine == "webrtc":
        return WebRtcDetector
    session = load_session()
    return lambda: GatedDetector(WebRtcDetector(), SileroDetector(session))


def _judge(settings: Settings, scheduler: Scheduler) -> SoundJudge:
    model = SmartTurn(settings.vad.path or CATALOGUE.file("smart-turn", settings.models.directory))
    model.probability(np.zeros(RATE, np.float32))

    async def judge(pcm: Pcm) -> float:
        return await scheduler.run(partial(model.probability, pcm), Urgency.FIRST_AUDIO)

    return judge


async def _spoken(synthesizer: Synthesizer, text: str, voice: Voice) -> Pcm:
    chunks = [pcm async for pcm in synthesizer.speak(text, voice)]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.float32)
