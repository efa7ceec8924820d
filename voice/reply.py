"""One reply of the agent as one task: text deltas, cut to clauses, spoken, played. Cancelling it ends all of it.

The model runs ahead of the voice by a few clauses, the voice ahead of the caller's ear by the
playout buffer; both bounds are waits. An engine that fails is said to the caller in one sentence.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass

import numpy as np
import structlog

from budget.deadline import Stage
from budget.errors import EngineError
from llm.chat import ToolCall
from tts.clauses import ClauseLimits, ClauseSplitter
from tts.speakable import speakable
from tts.speech import Pcm, Synthesizer, Voice
from voice.playout import Playout

log = structlog.get_logger(__name__)

_CLAUSES_AHEAD = 4
_END = None

Source = AsyncGenerator[str | ToolCall, None]
"""What a reply is made of: text to be spoken, functions to be called."""


@dataclass(frozen=True)
class Phrases:
    """Fixed phrases (greeting, apology, filler) that were spoken once at start-up, in the operator's `voice`."""

    voice: Voice
    audio: Mapping[str, Pcm]

    def saved(self, text: str, voice: Voice) -> Pcm | None:
        """The phrase's audio, if there is one in this voice."""
        return self.audio.get(text.strip()) if voice == self.voice else None


@dataclass(frozen=True)
class Speaker:
    """A synthesiser, how it shall sound, and what needs no synthesis."""

    synthesizer: Synthesizer
    voice: Voice
    phrases: Phrases
    apology: str
    """Said when an engine fails; saved in whatever voice, so that it can be said without the synthesiser."""


class Reply:
    """One reply. `text` grows as clauses come; `error` tells what broke, if anything did.

    `stamps` collects the loop times of the stages by the names of `TurnTimings`.
    """

    def __init__(self, reply_id: str, item_id: str, *, playout: Playout | None) -> None:
        self.reply_id, self.item_id = reply_id, item_id
        self.playout = playout
        """None: a reply in text only."""
        self.text = ""
        self.deltas = 0
        self.calls: list[ToolCall] = []
        """Functions that the model called: to be done once the reply was heard."""
        self.offered: frozenset[str] = frozenset()
        """The names of those that the client offered."""
        self.error: EngineError | None = None
        self.stamps: dict[str, float] = {}
        self.task: asyncio.Task[None] | None = None
        self.gate = asyncio.Event()
        """Set once the client may hear or read any of it."""
        self.wanted = asyncio.Event()
        """Set once it is likely enough to be wanted that the model shall begin."""

    @property
    def theirs(self) -> tuple[ToolCall, ...]:
        """The calls that are the client's to do."""
        return tuple(call for call in self.calls if call.name in self.offered)

    @property
    def seconds_spoken(self) -> float:
        """Seconds of speech made for it so far, heard or not."""
        return sum(clause.seconds for clause in self.playout.buffer.clauses()) if self.playout is not None else 0.0

    @property
    def first_sound_took(self) -> float | None:
        """Seconds from the model's start to the first sound; None if either has not been."""
        begun, sounded = self.stamps.get("llm_started"), self.stamps.get("tts_first_audio")
        return None if begun is None or sounded is None else sounded - begun

    def stamp(self, name: str) -> None:
        """Note that `name` happened now, if for the first time."""
        self.stamps.setdefault(name, asyncio.get_running_loop().time())

    async def write(self, source: Source, on_text: Callable[[str], Awaitable[None]]) -> None:
        """Run a reply in text only: every delta goes out at once, from when the gate opens."""
        try:
            async for delta in self._timed(source):
                self.text += delta
                await self.gate.wait()
                self.stamp("first_sent")
                await on_text(delta)
        except EngineError as error:
            self.error = error
        await self.gate.wait()

    async def speak(self, source: Source, speaker: Speaker, limits: ClauseLimits) -> None:
        """Run a spoken reply, cut to clauses by `limits`, until it was heard to its end."""
        assert self.playout is not None
        clauses: asyncio.Queue[str | None] = asyncio.Queue(_CLAUSES_AHEAD)
        async with asyncio.TaskGroup() as stages:
            stages.create_task(self._think(source, clauses, speaker, ClauseSplitter(limits)))
            stages.create_task(self._voice(clauses, speaker))
            stages.create_task(self.playout.run(self.gate))

    async def _think(
        self,
        source: Source,
        clauses: asyncio.Queue[str | None],
        speaker: Speaker,
        splitter: ClauseSplitter,
    ) -> None:
        words = False
        try:
            async for delta in self._timed(source):
                whole = speaker.phrases.saved(delta, speaker.voice) is not None
                for clause in [delta] if whole else splitter.feed(delta):
                    words = words or bool(speakable(clause, speaker.voice.language))
                    await clauses.put(clause)
            for clause in splitter.flush():
                words = words or bool(speakable(clause, speaker.voice.language))
                await clauses.put(clause)
            if not words and not self.calls:
                raise EngineError(Stage.LLM, "the model answered nothing that can be spoken")
        except EngineError as error:
            log.warning("reply failed", stage=error.stage.name, error=str(error))
            self.error = error
            await clauses.put(speaker.apology)
        await clauses.put(_END)

    async def _timed(self, source: Source) -> AsyncGenerator[str, None]:
        self.stamp("llm_started")
        async with contextlib.aclosing(source):
            async for delta in source:
                self.stamp("llm_first_token")
                self.deltas += 1
                if isinstance(delta, ToolCall):
                    self.calls.append(delta)
                else:
                    yield delta

    async def _voice(self, clauses: asyncio.Queue[str | None], speaker: Speaker) -> None:
        assert self.playout is not None
        while (clause := await clauses.get()) is not _END:
            self.text += clause
            try:
                await self._say(clause, speaker, self.playout)
            except EngineError as error:
                log.warning("reply failed", stage=error.stage.name, error=str(error))
                first, self.error = self.error is None, error
                if first and (saved := speaker.phrases.audio.get(speaker.apology)) is not None:
                    self.playout.put(" " + speaker.apology, saved)
                break
        self.playout.finish()
        while clause is not _END:
            clause = await clauses.get()

    async def _say(self, clause: str, speaker: Speaker, playout: Playout) -> None:
        await playout.room()
        saved = speaker.phrases.saved(clause, speaker.voice)
        if saved is not None:
            self.stamp("tts_started")
            self.stamp("tts_first_audio")
            playout.put(clause, saved)
            return
        said = speakable(clause, speaker.voice.language)
        text = clause
        if said:
            self.stamp("tts_started")
            due = asyncio.get_running_loop().time() + playout.buffer.seconds_waiting
            speaking = speaker.synthesizer.speak(said, speaker.voice, deadline=due)
            async with contextlib.aclosing(speaking) as audio:
                async for pcm in audio:
                    if "tts_first_audio" not in self.stamps:
                        pcm = without_lead(pcm, speaker.synthesizer.rate)
                    self.stamp("tts_first_audio")
                    playout.put(text, pcm)
                    text = ""
        if text:
            playout.put(text, np.zeros(0, np.float32))


def without_lead(pcm: Pcm, rate: int) -> Pcm:
    """Audio without the silence before its first sound, of which 10 ms stay: a caller waits for sound, not samples."""
    loud = np.flatnonzero(np.abs(pcm) > 0.01)
    if not loud.size:
        return pcm
    return pcm[max(0, int(loud[0]) - rate // 100) :]


async def fixed(*parts: str | EngineError) -> AsyncGenerator[str, None]:
    """A reply whose text is known, such as a greeting; an error among the parts breaks it as an engine would."""
    for part in parts:
        if isinstance(part, EngineError):
            raise part
        yield part


RECOGNITION_FAILED = EngineError(Stage.ASR, "the recogniser failed", retryable=True)
