"""Who has the floor: a sans-I/O state machine of one call.

Events in, commands out. It knows nothing of audio, models or clocks; media time comes with the
events. The whole product's behaviour in conversation is the table below:

    phase      event               next       commands
    ---------  ------------------  ---------  ------------------------------------------------
    LISTENING  CallerSpoke         HEARING    BeginTurn (agent heard: HoldReply first; about to
                                              speak, or just begun: DropReply, then ContinueTurn)
    HEARING    CallerInsists       HEARING    Interrupt, if a reply is held
    HEARING    CallerFellSilent    PAUSED     Recognise
    PAUSED     Recognised          PAUSED     PrepareReply, its audio held back (Interrupt first,
                                              if a reply is held)
    PAUSED     CallerSpoke         HEARING    DropReply if prepared, ContinueTurn
    PAUSED     TurnOver            LISTENING  CommitTurn (if not yet recognised: DECIDED)
    DECIDED    Recognised          LISTENING  PrepareReply, CommitTurn
    DECIDED    CallerSpoke         HEARING    ContinueTurn
    both       nothing recognised  LISTENING  AbandonTurn, once the turn is over (at once, and
                                              ResumeReply, if a reply is held)
    both       RecognitionFailed   LISTENING  AbandonTurn, Apologise (or ResumeReply)

The agent's side is one fact, `Agent`: silent, about to speak (its audio is held or on its way),
heard, or on hold. Speech while it is about to speak, or in the first moments of an answer, takes the
answer back: both parts of the caller's speech become one turn, and the answer leaves no trace.
Speech later puts it on hold at once. Words, or speech that lasts, make that an interruption; a
cough, a noise or an "mm-hm" don't, and the agent goes on where it stopped.
"""

from dataclasses import dataclass
from enum import Enum
from typing import assert_never


class Phase(Enum):
    """The caller's side."""

    LISTENING = "listening"
    HEARING = "hearing"
    PAUSED = "paused"
    DECIDED = "decided"


class Agent(Enum):
    """The agent's side."""

    SILENT = "silent"
    ABOUT_TO_SPEAK = "about to speak"
    HEARD = "heard"
    ON_HOLD = "on hold"
    """Stopped while the caller says something that may be no more than "mm-hm"."""


# ---- events ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallerSpoke:
    """Speech began, or went on, at media time `at`."""

    at: float


@dataclass(frozen=True)
class CallerInsists:
    """What the caller says is more than a listener's "mm-hm": it lasts, or has words."""


@dataclass(frozen=True)
class CallerFellSilent:
    """No speech since media time `speech_end`."""

    speech_end: float


@dataclass(frozen=True)
class TurnOver:
    """The endpoint rule, or the client, says that the turn is over."""


@dataclass(frozen=True)
class Recognised:
    """The final transcript of the turn so far; `empty` if nobody said anything.

    `backchannel`: it only shows that the caller listens.
    """

    empty: bool
    backchannel: bool = False


@dataclass(frozen=True)
class RecognitionFailed:
    """The recogniser broke; the turn can't be answered from words."""


@dataclass(frozen=True)
class AgentHeard:
    """The first audio of the reply went out at media time `at`."""

    at: float


@dataclass(frozen=True)
class AgentDone:
    """The reply was heard to its end, failed or was cancelled elsewhere."""


@dataclass(frozen=True)
class AgentAsked:
    """Somebody else than the caller's turn made the agent speak (a greeting, the client)."""


Event = (
    CallerSpoke
    | CallerInsists
    | CallerFellSilent
    | TurnOver
    | Recognised
    | RecognitionFailed
    | AgentHeard
    | AgentDone
    | AgentAsked
)

# ---- commands --------------------------------------------------------------------------------


@dataclass(frozen=True)
class BeginTurn:
    """A new turn of the caller begins at media time `at`."""

    at: float


@dataclass(frozen=True)
class ContinueTurn:
    """The caller goes on in the same turn at media time `at`."""

    at: float


@dataclass(frozen=True)
class Recognise:
    """Decode what was said up to `speech_end` as final."""

    speech_end: float


@dataclass(frozen=True)
class PrepareReply:
    """Start the answer to the turn; its audio stays held back until the turn is committed."""


@dataclass(frozen=True)
class CommitTurn:
    """The turn is certain: it enters the conversation, and a prepared answer may be heard."""


@dataclass(frozen=True)
class DropReply:
    """Throw the prepared answer away: nobody heard it, nothing of it is kept."""


@dataclass(frozen=True)
class HoldReply:
    """Stop the agent's sound now; it may go on from there."""


@dataclass(frozen=True)
class ResumeReply:
    """Let the reply on hold go on from where it stopped."""


@dataclass(frozen=True)
class Interrupt:
    """End the agent's reply now; keep the words that were heard."""


@dataclass(frozen=True)
class AbandonTurn:
    """Nobody said anything: forget the turn."""


@dataclass(frozen=True)
class Apologise:
    """Tell the caller in one sentence that the turn failed."""


Command = (
    BeginTurn
    | ContinueTurn
    | Recognise
    | PrepareReply
    | CommitTurn
    | DropReply
    | HoldReply
    | ResumeReply
    | Interrupt
    | AbandonTurn
    | Apologise
)

TAKE_BACK = 0.3
"""Seconds of an answer in which speech goes on with the turn: too soon to be a reaction to what was heard."""


class _Result(Enum):
    """What the recogniser made of the turn so far."""

    PENDING = "pending"
    EMPTY = "empty"
    BACKCHANNEL = "backchannel"
    WORDS = "words"


class TurnTaking:
    """The state of one call's conversation.

    `interruptible`: the caller's speech stops the agent. `answers`: turns are answered without
    being asked to.
    """

    def __init__(self, *, interruptible: bool = True, answers: bool = True) -> None:
        self.phase = Phase.LISTENING
        self.agent = Agent.SILENT
        self.interruptible = interruptible
        self.answers = answers
        self._result = _Result.PENDING
        self._answers_turn = False
        self._heard_since = 0.0

    def step(self, event: Event) -> list[Command]:
        """Take one event; return what to do, in order."""
        match event:
            case CallerSpoke(at):
                return self._caller_spoke(at)
            case CallerInsists():
                return self._interrupt() if self.phase is Phase.HEARING else []
            case CallerFellSilent(speech_end):
                return self._caller_fell_silent(speech_end)
            case TurnOver():
                return self._turn_over()
            case Recognised(empty, backchannel):
                words = _Result.BACKCHANNEL if backchannel else _Result.WORDS
                return self._recognised(_Result.EMPTY if empty else words)
            case RecognitionFailed():
                return self._recognition_failed()
            case AgentAsked():
                self._answers_turn = False
                self.agent = Agent.ABOUT_TO_SPEAK
            case AgentHeard(at):
                self.agent, self._heard_since = Agent.HEARD, at
            case AgentDone():
                self.agent = Agent.SILENT
            case _:
                assert_never(event)
        return []

    def _caller_spoke(self, at: float) -> list[Command]:
        match self.phase:
            case Phase.HEARING:
                return []
            case Phase.PAUSED | Phase.DECIDED:
                self.phase = Phase.HEARING
                return [*self._drop(), ContinueTurn(at)]
            case Phase.LISTENING:
                return self._from_listening(at)
            case _:
                assert_never(self.phase)

    def _from_listening(self, at: float) -> list[Command]:
        if self.agent is not Agent.SILENT and not self.interruptible:
            return []
        self.phase = Phase.HEARING
        just_begun = self._answers_turn and at - self._heard_since <= TAKE_BACK
        if self.agent is Agent.ABOUT_TO_SPEAK or (self.agent is Agent.HEARD and just_begun):
            self.agent = Agent.SILENT
            return [DropReply(), ContinueTurn(at) if self._answers_turn else BeginTurn(at)]
        if self.agent is Agent.HEARD:
            self.agent = Agent.ON_HOLD
            return [HoldReply(), BeginTurn(at)]
        return [BeginTurn(at)]

    def _caller_fell_silent(self, speech_end: float) -> list[Command]:
        if self.phase is not Phase.HEARING:
            return []
        self.phase = Phase.PAUSED
        self._result = _Result.PENDING
        return [Recognise(speech_end)]

    def _turn_over(self) -> list[Command]:
        if self.phase is not Phase.PAUSED:
            return []
        if self._result is _Result.PENDING:
            self.phase = Phase.DECIDED
            return []
        self.phase = Phase.LISTENING
        return [AbandonTurn() if self._result is _Result.EMPTY else CommitTurn()]

    def _recognised(self, result: _Result) -> list[Command]:
        if self.phase not in (Phase.PAUSED, Phase.DECIDED):
            return []
        if self.agent is Agent.ON_HOLD and result is not _Result.WORDS:
            return self._resume()
        decided = self.phase is Phase.DECIDED
        self._result = result
        if decided:
            self.phase = Phase.LISTENING
        if result is _Result.EMPTY:
            return [AbandonTurn()] if decided else []
        prepare = self._interrupt()
        if self.answers:
            self.agent, self._answers_turn = Agent.ABOUT_TO_SPEAK, True
            prepare.append(PrepareReply())
        return [*prepare, CommitTurn()] if decided else prepare

    def _recognition_failed(self) -> list[Command]:
        if self.phase not in (Phase.PAUSED, Phase.DECIDED):
            return []
        if self.agent is Agent.ON_HOLD:
            return self._resume()
        self.phase = Phase.LISTENING
        return [AbandonTurn(), Apologise()]

    def _resume(self) -> list[Command]:
        self.phase, self.agent = Phase.LISTENING, Agent.HEARD
        return [AbandonTurn(), ResumeReply()]

    def _interrupt(self) -> list[Command]:
        if self.agent is not Agent.ON_HOLD:
            return []
        self.agent = Agent.SILENT
        return [Interrupt()]

    def _drop(self) -> list[Command]:
        if self.agent is not Agent.ABOUT_TO_SPEAK:
            return []
        self.agent = Agent.SILENT
        return [DropReply()]
