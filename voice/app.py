"""The only place where parts are put together: load, warm, ready, serve, drain."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import numpy as np
import structlog

from asr.background import SplitRecognizer
from asr.whisper import FINALS, PARTIALS, WhisperRecognizer
from budget.admission import Admitted, Asked, Reason, Refused
from budget.governor import Effort
from budget.ids import new_id
from budget.machine_memory import taken
from budget.memory import MemoryLedger
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
from vad.smart_turn import SECONDS, SmartTurn
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
from voice.promise import Promise
from voice.reply import Phrases
from voice.warmup import check_recognizer, warm_recognizer, warm_synthesizer

log = structlog.get_logger(__name__)

_BACKGROUND = 10
"""How nice partial transcripts are to the rest: they get a tenth of a core that somebody else wants."""
DRAIN = 5.0
"""Seconds that calls get to end when the service stops."""


class CallHold:
    """A place for one call, kept from before the client is answered until the call is over."""

    def __init__(self, promise: Promise, admitted: Admitted, engines: Engines, chat: ChatSession) -> None:
        self._promise, self._admitted = promise, admitted
        self.engines, self.chat = engines, chat
        self.talked: float | None = None
        """The share of the call that its caller talked, once it is over."""
        self._held = True

    @property
    def effort(self) -> Callable[[], Effort]:
        """How much may be done for the call now."""
        return lambda: self._promise.effort

    async def release(self) -> None:
        """Give the place back; safe to call twice."""
        if self._held:
            self._held = False
            try:
                await self.chat.close()
            finally:
                self._promise.ended(self._admitted, talked=self.talked)


class Service:
    """The running service: its engines and its calls."""

    def __init__(self, settings: Settings, observer: Observer) -> None:
        self.settings, self.observer = settings, observer
        self.engines: Engines | None = None
        """None until every engine is warm."""
        self.promise: Promise | None = None
        """There as soon as the engines are."""
        self.failure: str = ""
        self._calls: dict[str, Call] = {}
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

    def hold(self, asked: Asked) -> CallHold | Refused:
        """Reserve a place for one call at once, or say why there is none."""
        engines, promise = self.engines, self.promise
        if engines is None or promise is None:
            self.observer.refused(Reason.NOT_READY.value)
            return Refused(Reason.NOT_READY, "the service is starting or stopping", 2.0)
        admitted = promise.ask(asked)
        if isinstance(admitted, Refused):
            return admitted
        chat = engines.chat.open()
        if chat is None:  # a session of a call that is just ending is not back yet
            promise.ended(admitted, talked=None)
            return Refused(Reason.CAPACITY, "a place is just being cleared; call again", 1.0)
        return CallHold(promise, admitted, engines, chat)

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
            hold.effort,
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
            lasted = asyncio.get_running_loop().time() - call.record.started
            if call.record.turns:
                hold.talked = call.record.talked / max(lasted, 1e-6)
            await hold.release()
            self.observer.call_ended(call.record, lasted)

    async def drain(self) -> None:
        """End all calls, politely and then at once."""
        for call in list(self._calls.values()):
            call.hang_up("service stopping")
        async with asyncio.timeout(DRAIN):
            await self._idle.wait()


@asynccontextmanager
async def engines(settings: Settings, ledger: MemoryLedger, share: Work | None = None) -> AsyncIterator[Engines]:
    """Load every engine, warm it with its largest work and enter into the ledger what it took; free all at the end.

    One after the other, so that what each takes can be told. Their work counts in `share`. Raises
    `ModelError` or `EngineError`.
    """
    settings = await calibrated(settings)
    meter = _Meter(ledger)
    async with AsyncExitStack() as stack:
        recognizer = await asyncio.to_thread(_recognizer, settings, share)
        stack.push_async_callback(asyncio.to_thread, recognizer.close)
        await check_recognizer(recognizer)
        await warm_recognizer(recognizer, FINALS, PARTIALS)
        meter.took("whisper")
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
        self._before = {device.name: taken(device.name) for device in ledger.devices}

    def took(self, engine: str) -> None:
        """The engine is loaded and warm."""
        for device, before in self._before.items():
            now = self._before[device] = taken(device)
            if self._ledger.device_of(engine) == device and now is not None and before is not None:
                self._ledger.measured(engine, max(0, now - before))


async def _phrases(settings: Settings, synthesizer: Synthesizer) -> Phrases:
    call = settings.call_settings()
    texts = [text for text in (call.greeting, call.apology, call.filler) if text]
    return Phrases(call.sound, {text: await _spoken(synthesizer, text, call.sound) for text in texts})


def _recognizer(settings: Settings, share: Work | None) -> SplitRecognizer | WhisperRecognizer:
    """Two instances on a processor; on a card one: nothing runs there by priority, and its memory is dear."""

    def instance(workers: int, nice: int = 0) -> WhisperRecognizer:
        scheduler = Scheduler("asr", workers=workers, share=share)
        with bulk_threads(nice):  # the runtime's threads only: one of Python's, so nice, would keep its lock for long
            return WhisperRecognizer(
                whisper_folder(settings),
                scheduler,
                threads=settings.asr.threads,
                workers=workers,
                device=settings.asr.device,
                share=share,
            )

    if settings.asr.device == "cpu":
        return SplitRecognizer(instance(FINALS), instance(PARTIALS, _BACKGROUND))
    return instance(FINALS + PARTIALS)


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
    model.probability(np.zeros(SECONDS * RATE, np.float32))

    async def judge(pcm: Pcm) -> float:
        return await scheduler.run(partial(model.probability, pcm), Urgency.FIRST_AUDIO)

    return judge


async def _spoken(synthesizer: Synthesizer, text: str, voice: Voice) -> Pcm:
    chunks = [pcm async for pcm in synthesizer.speak(text, voice)]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.float32)
