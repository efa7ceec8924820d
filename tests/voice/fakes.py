"""Call scripts: scripted engines and a scripted caller on the virtual clock; the real engines are in `tests/e2e`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from asr.recognizer import DecodeRequest
from asr.transcript import Transcript
from budget.deadline import Stage
from budget.errors import EngineError, PeerError
from budget.governor import Effort
from llm.chat import Message, ReplyOptions, ToolCall
from transport.frame import AudioFrame
from transport.leg import Notice
from transport.requests import HangUp, Request
from tts.speech import Voice
from vad.speech import WINDOW, SpeechDetector
from voice.call import Call
from voice.engines import CallEngines
from voice.observe import Observer
from voice.reply import Phrases
from voice.session import CallSettings

LOUD, QUIET = 0.5, 0.0


class LoudnessDetector:
    """Speech is what is loud."""

    def probability(self, window: np.ndarray) -> float:
        assert len(window) == WINDOW
        return float(np.abs(window).max() > 0.1)


@dataclass
class FakeRecognizer:
    """Hears, in any audio that has sound in it, `text` so far; takes `seconds`; breaks when told to."""

    text: str = "hello"
    seconds: float = 0.1
    broken: bool = False
    requests: list[DecodeRequest] = field(default_factory=list)

    def spare(self, own: int) -> bool:
        return True

    async def decode(self, request: DecodeRequest, urgency: object, *, deadline: float = 0.0) -> Transcript:
        self.requests.append(request)
        await asyncio.sleep(self.seconds)
        if self.broken:
            raise EngineError(Stage.ASR, "broken")
        return Transcript(self.text if np.abs(request.pcm).max() > 0.1 else "")


@dataclass
class FakeChat:
    """Answers `words` one by one."""

    words: list[str | ToolCall] = field(default_factory=lambda: ["Good", " morning", " to", " you."])
    then: list[str | ToolCall] = field(default_factory=list)
    """What it answers from the second time on, if anything else."""
    first: float = 0.08
    per_word: float = 0.02
    broken_after: int | None = None
    sentence: float | None = None
    """How likely any words are a whole sentence."""
    prompts: list[list[Message]] = field(default_factory=list)
    options: list[ReplyOptions] = field(default_factory=list)
    prefills: list[list[Message]] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)
    stopped: int = 0
    closed: bool = False

    async def reply(
        self, messages: list[Message], options: ReplyOptions, *, deadline: float = 0.0
    ) -> AsyncGenerator[str | ToolCall, None]:
        self.prompts.append(messages)
        self.options.append(options)
        try:
            await asyncio.sleep(self.first)
            words = self.then if self.then and len(self.prompts) > 1 else self.words
            for i, word in enumerate(words):
                if i == self.broken_after:
                    raise EngineError(Stage.LLM, "broken")
                yield word
                await asyncio.sleep(self.per_word)
        except (GeneratorExit, asyncio.CancelledError):
            self.stopped += 1
            raise

    async def prefill(self, messages: list[Message], *, urgent: bool = False) -> None:
        self.prefills.append(messages)

    async def whole(self, text: str, *, urgent: bool = False) -> float | None:
        self.judged.append(text)
        return self.sentence

    async def close(self) -> None:
        self.closed = True


@dataclass
class FakeSynthesizer:
    """Speaks a clause in `first` seconds, at 0.1 s a letter-free word."""

    rate: int = 16_000
    first: float = 0.06
    per_word: float = 0.3
    broken: bool = False
    spoken: list[str] = field(default_factory=list)

    def voices(self) -> tuple[str, ...]:
        return ("default", "other")

    async def speak(self, text: str, voice: Voice, *, deadline: float = 0.0) -> AsyncGenerator[np.ndarray, None]:
        await asyncio.sleep(self.first)
        if self.broken:
            raise EngineError(Stage.TTS, "broken")
        self.spoken.append(text)
        yield np.full(round(len(text.split()) * self.per_word * self.rate), 0.3, np.float32)

    async def warm(self) -> None: ...

    async def close(self) -> None: ...


class ScriptedLeg:
    """A caller who speaks at given times (seconds) and keeps all that comes back with its time."""

    rate, kind = 16_000, "test"
    about: ClassVar[dict[str, str]] = {}

    def __init__(
        self, speaks: list[tuple[float, float]], until: float, *, greets: bool = False, pace: float = 1.0
    ) -> None:
        self._pace = pace
        """Seconds that the caller's clock takes for one of ours."""
        self._speaks, self._until, self.greets = speaks, until, greets
        self.stalls: tuple[float, float] | None = None
        """No frame comes between these times."""
        self.requests: list[tuple[float, Request]] = []
        self.played: list[float] = []
        self.flushed: list[float] = []
        self.notices: list[tuple[float, Notice]] = []
        self.hung_up = ""
        self.pressed: list[str] = []
        self.transferred: list[tuple[float, str]] = []

    async def frames(self) -> AsyncIterator[AudioFrame | Request]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        pending = sorted(self.requests, key=lambda entry: entry[0])
        for i in range(round(self._until * 50)):
            time = i * 0.02
            await asyncio.sleep(max(0.0, began + (time + 0.02) * self._pace - loop.time()))
            while pending and pending[0][0] <= time:
                yield pending.pop(0)[1]
            if self.stalls and self.stalls[0] <= time < self.stalls[1]:
                continue
            loud = any(start <= time < end for start, end in self._speaks)
            yield AudioFrame(np.full(320, LOUD if loud else QUIET, np.float32), time)
        yield HangUp("script over")

    async def play(self, pcm: np.ndarray) -> None:
        self.played.append(asyncio.get_running_loop().time())

    async def flush(self) -> float:
        self.flushed.append(asyncio.get_running_loop().time())
        return 0.0

    async def notify(self, notice: Notice) -> None:
        self.notices.append((asyncio.get_running_loop().time(), notice))

    async def press(self, keys: str) -> None:
        self.pressed.append(keys)

    async def transfer(self, target: str) -> None:
        await asyncio.sleep(0.5)
        if target == "nobody":
            raise PeerError("transfer_failed", "the other side answered 404")
        self.transferred.append((asyncio.get_running_loop().time(), target))

    async def hangup(self, reason: str) -> None:
        self.hung_up = reason

    def all(self, kind: type) -> list:
        return [notice for _, notice in self.notices if isinstance(notice, kind)]

    def sounding(self, after: float, before: float = 1e9) -> list[float]:
        return [at for at in self.played if after <= at < before]


@dataclass
class Scene:
    """The engines of one scripted call."""

    recognizer: FakeRecognizer = field(default_factory=FakeRecognizer)
    chat: FakeChat = field(default_factory=FakeChat)
    synthesizer: FakeSynthesizer = field(default_factory=FakeSynthesizer)
    detector: SpeechDetector = field(default_factory=LoudnessDetector)
    saved: dict[str, np.ndarray] = field(default_factory=dict)
    """Phrases spoken in advance, in the voice "saved"."""
    complete: float | None = None
    """What the sound of every pause is judged to be; None: nobody judges, silence decides."""

    effort: Effort = field(default_factory=Effort)
    """What the governor allows."""

    async def judge(self, pcm: np.ndarray) -> float:
        await asyncio.sleep(0.04)
        if self.complete is None:
            raise RuntimeError("nobody judges")
        return self.complete

    async def call(self, leg: ScriptedLeg, settings: CallSettings | None = None) -> Call:
        settings = settings or CallSettings(instructions="Be brief.", greeting="Hello there.")
        phrases = Phrases(Voice("saved"), {settings.apology: np.full(16_000, 0.3, np.float32), **self.saved})
        engines = CallEngines(
            self.recognizer,
            self.detector,
            self.judge,
            self.chat,
            self.synthesizer,
            phrases,
            frozenset({"en", "zh"}),
            lambda: self.effort,
        )
        call = Call("call_test", leg, engines, settings, Observer())
        await call.run()
        return call
