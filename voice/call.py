"""One call, from its first frame to hang-up: the loop that owns everything the call knows.

Whatever happens to a call arrives as one event in one inbox: the caller's audio, the client's
requests, a transcript, a reply that was heard or ended, the clock. The loop takes one event at a
time, asks `turn_taking` what it means for the conversation and carries the commands out. All else
(decoding, thinking, speaking) runs in child tasks of the call's group that only report back, so no
state is shared and hanging up is leaving the group.

How a turn goes: `Hearing` follows the caller's voice and keeps the turn's words up to date. At the
first silence the last words are decoded and an answer is prepared, its audio held back. When the
turn is surely over it is committed and the answer is heard; when the caller goes on, the answer is
dropped as if it had never been. Speech while the agent is heard stops it; words make that an
interruption, and the conversation remembers what was played.
"""

import asyncio
from contextlib import suppress
from typing import assert_never

import structlog

from asr.transcript import Heard
from budget.deadline import LatencyBudget, TurnTimings
from budget.errors import PeerError
from transport.frame import AudioFrame
from transport.leg import CallerHeard, CallLeg, CallTrouble, SessionChanged
from transport.requests import Act, HangUp
from vad.wording import backchannel
from voice import speaking
from voice.answering import Answering, Ended, ReplyAudible, ReplyFinished, SentenceJudged
from voice.controls import Acted, Controls
from voice.dialogue import Dialogue
from voice.engines import CallEngines
from voice.hearing import Decoded, Hearing
from voice.inbox import CallEvent, Inbox, Tick
from voice.keypad import Keypad, answer
from voice.line_tools import offered
from voice.observe import Observer
from voice.pause import SoundJudged
from voice.records import CallRecord, OpenTurn, Outcome
from voice.requests import apply_request
from voice.session import CallSettings
from voice.turn_taking import (
    AbandonTurn,
    Apologise,
    BeginTurn,
    CallerInsists,
    CallerSpoke,
    Command,
    CommitTurn,
    ContinueTurn,
    DropReply,
    Event,
    HoldReply,
    Interrupt,
    Phase,
    PrepareReply,
    Recognise,
    Recognised,
    RecognitionFailed,
    ResumeReply,
    TurnOver,
    TurnTaking,
)
from voice.turns import Turns

log = structlog.get_logger(__name__)


class _HungUpError(Exception):
    """Ends the call's task group; carries the reason."""


class Call:
    """One call over one leg. `run` returns when it is over; it raises nothing but bugs."""

    def __init__(
        self, call_id: str, leg: CallLeg, engines: CallEngines, settings: CallSettings, observer: Observer
    ) -> None:
        self.call_id, self.leg, self.engines = call_id, leg, engines
        self.settings = settings.told(leg.about)
        self.dialogue = Dialogue(self.settings.instructions)
        self.talk = TurnTaking()
        self.record = CallRecord(call_id, leg.kind, asyncio.get_running_loop().time(), about=dict(leg.about))
        self.turns = Turns(leg, self.dialogue, self.record, observer)
        self.keypad = Keypad()
        self.held = False
        self.observer = observer
        self._inbox = Inbox()
        self.active = self._heard_at = self.record.started
        self._tasks: asyncio.TaskGroup
        self.hearing: Hearing
        self.answering: Answering
        self.controls: Controls

    async def run(self) -> CallRecord:
        """Run the call to its end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._assemble(tasks)
                tasks.create_task(self._read())
                tasks.create_task(self._inbox.tick())
                await self._begin()
                while True:
                    await self._handle(await self._inbox.get())
        except* _HungUpError as ended:
            self.record.reason = str(ended.exceptions[0])
        finally:
            self.hearing.close()
            self.controls.over()
            await self.turns.left(self.answering.left())
            await self.engines.chat.close()
            with suppress(ConnectionError, RuntimeError):
                await self.leg.hangup(self.record.reason)
        return self.record

    def hang_up(self, reason: str) -> None:
        """End the call from outside its loop: the service is stopping."""
        self._inbox.post(HangUp(reason))

    def post(self, event: CallEvent) -> None:
        """Something happened, or is asked for, outside the loop."""
        self._inbox.post(event)

    def _assemble(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self.controls = Controls(self, tasks)
        self.hearing = Hearing(
            self.engines.detector,
            self.engines.recognizer,
            judge=self.engines.judge,
            rule=self.settings.endpoint,
            language=self.settings.language,
            tasks=tasks,
            post=self._inbox.post,
            effort=self.engines.effort,
        )
        self.answering = Answering(
            self.leg,
            self.engines.chat,
            self.engines.synthesizer,
            self.engines.phrases,
            self.dialogue,
            tasks=tasks,
            post=self._inbox.post,
            effort=self.engines.effort,
        )

    async def _begin(self) -> None:
        self.adopt(self.settings)
        await self.leg.notify(SessionChanged(self.settings.options()))
        if self.leg.greets:
            await speaking.greet(self)
        else:
            self.warm_prompt("")

    async def _read(self) -> None:
        try:
            async for entry in self.leg.frames():
                await self._inbox.put(entry)
        except PeerError as error:
            await self.leg.notify(CallTrouble(error.code, str(error)))
        await self._inbox.put(HangUp("client gone"))

    async def _handle(self, event: CallEvent) -> None:
        match event:
            case AudioFrame():
                await self._hear(event)
            case Decoded():
                await self._decoded(event)
            case SoundJudged():
                self.hearing.pause.sounds(event)
            case SentenceJudged():
                self._judged(event)
            case ReplyAudible(reply_id, at):
                await speaking.audible(self, reply_id, at)
            case ReplyFinished(reply_id):
                await speaking.finished(self, reply_id)
            case Acted():
                await self.controls.acted(event)
            case Act():
                await self.controls.ask(event)
            case Tick(now):
                await self._watch_clock(now)
            case HangUp(reason):
                raise _HungUpError(reason)
            case _:
                self.active = asyncio.get_running_loop().time()
                await apply_request(self, event)

    async def _hear(self, frame: AudioFrame) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        for event in self.hearing.push(frame):
            await self.talk_about(event)
        self._think_ahead()
        self.hearing.partial()

    def _think_ahead(self) -> None:
        """Begin the prepared answer once the turn is likely enough to be over."""
        reply = self.answering.waiting
        lead, hearing = self.engines.effort().head_start, self.hearing
        if reply is not None and hearing.pause.likely_over(hearing.last_speech, hearing.now, lead):
            reply.wanted.set()

    async def talk_about(self, event: Event) -> None:
        """Let turn taking see the event and carry out what it says."""
        now = asyncio.get_running_loop().time()
        if isinstance(event, CallerSpoke):
            self.active = now
        if isinstance(event, TurnOver) and self.turns.open is not None:
            self.turns.open.stamp(endpoint=now)
        for command in self.talk.step(event):
            await self._carry_out(command)

    async def _carry_out(self, command: Command) -> None:
        match command:
            case BeginTurn(at):
                await self._begin_turn(at)
            case ContinueTurn(at):
                await self._continue_turn(at)
            case Recognise(speech_end):
                await self._recognise(speech_end)
            case PrepareReply():
                await self._prepare()
            case CommitTurn():
                await self._commit()
            case DropReply():
                await speaking.take_back(self)
            case HoldReply():
                await self.answering.hold()
            case ResumeReply():
                self.answering.resume()
                self.observer.resumed(self.leg.kind)
            case Interrupt():
                await speaking.stop_agent(self, "turn_detected")
            case AbandonTurn():
                await self._abandon()
            case Apologise():
                await speaking.apologise(self)
            case _:
                assert_never(command)

    async def _begin_turn(self, at: float) -> None:
        self.hearing.begin(at)
        await self.turns.begin(at)

    async def _continue_turn(self, at: float) -> None:
        self.hearing.resume(at)
        await self.turns.go_on(at)

    async def _recognise(self, speech_end: float) -> None:
        turn = self.turns.open
        if turn is None:
            return
        now = asyncio.get_running_loop().time()
        ended = now - max(0.0, self.hearing.now - speech_end)
        known = self.hearing.recognise(speech_end)
        turn.timings = TurnTimings(speech_end=ended, asr_started=max(ended, self.hearing.asr_started))
        if known:
            await self._recognised(turn)

    async def _decoded(self, decoded: Decoded) -> None:
        turn = self.turns.open
        if not self.hearing.complete(decoded) or turn is None:
            return
        if not decoded.job.final or self.talk.phase in (Phase.HEARING, Phase.LISTENING):
            await self._partially_heard(turn, self.hearing.heard())
        elif decoded.transcript is None:
            await self.talk_about(RecognitionFailed())
        else:
            await self._recognised(turn)

    async def _recognised(self, turn: OpenTurn) -> None:
        turn.text = self.hearing.heard().text
        turn.stamp(asr_final=asyncio.get_running_loop().time())
        if self.settings.language == "auto" and turn.text:
            self.hearing.language = self.hearing.detected_language()
        self.hearing.pause.says(turn.text)
        listens = backchannel(turn.text) and not self.answering.asked()
        await self.talk_about(Recognised(empty=not turn.text, backchannel=listens))
        if not self.talk.answers:
            self.hearing.pause.means(None)

    def _judged(self, judged: SentenceJudged) -> None:
        reply = self.answering.reply
        if self.turns.open is not None and reply is not None and reply.reply_id == judged.reply_id:
            self.hearing.pause.means(judged.probability)
            self._think_ahead()

    async def _partially_heard(self, turn: OpenTurn, heard: Heard) -> None:
        if not heard.text:
            return
        await self.leg.notify(CallerHeard(turn.item_id, heard.text, heard.committed, final=False))
        if not backchannel(heard.text):
            await self.talk_about(CallerInsists())
        self.warm_prompt(heard.text)

    async def _commit(self) -> None:
        if self.turns.open is not None:
            self.turns.open.stamp(endpoint=asyncio.get_running_loop().time())
        await self.turns.commit(self.hearing.last_speech)
        await self.controls.spoken()
        if self.talk.answers and self.answering.reply is not None:
            await self.answering.release()
        else:
            await self.close_turn(Outcome.UNANSWERED)

    async def _abandon(self) -> None:
        await self.turns.abandon(self.hearing.last_speech)
        self._forget_audio()

    async def close_turn(self, outcome: Outcome, ended: Ended | None = None) -> None:
        """The answered turn is over, with its reply or without one."""
        await self.turns.close(outcome, ended)
        self._forget_audio()

    def _forget_audio(self) -> None:
        if self.turns.open is None:
            self.hearing.close()

    async def _prepare(self) -> None:
        turn = self.turns.open
        if turn is not None and turn.timings is not None:
            budget = LatencyBudget(turn.timings.speech_end, self.settings.target)
            self.answering.answer(self.settings, turn.text, deadline=budget.deadline)

    def warm_prompt(self, upcoming: str) -> None:
        """Have the conversation so far read by the model while nobody waits for it."""
        if not upcoming:
            self.dialogue.trim(self.settings.prompt_tokens)
        self._tasks.create_task(self.answering.prefill(self.settings, upcoming))

    async def _watch_clock(self, now: float) -> None:
        for event in self.hearing.stalled(now - self._heard_at):
            await self.talk_about(event)
        await answer(self, now)
        await self.controls.look(now)
        if now - self.record.started > self.settings.max_duration:
            raise _HungUpError("maximum duration reached")
        idle = self.answering.reply is None and not self.held and self.controls.doing is None
        if idle and now - self.active > self.settings.idle_timeout:
            raise _HungUpError("idle")

    def adopt(self, settings: CallSettings) -> None:
        """Run by these settings from now on."""
        detection = settings.turn_detection
        self.settings = settings
        self.dialogue.instructions = settings.instructions
        self.dialogue.tools = offered(settings)
        self.talk.answers = detection.automatic and detection.answer
        self.talk.interruptible = detection.interrupt
        self.hearing.automatic = detection.automatic
        self.hearing.language = settings.language
        self.hearing.pause.rule = settings.rule
