"""Who has the floor: a sans-I/O state machine of one call.

Events in, commands out. It knows nothing of audio, models or clocks; media time comes with the
events. The whole product's behaviour in conversation is the table below:

    phase      event               next       commands
    ---------  ------------------  ---------  ------------------------------------------------
    LISTENING  CallerSpoke         HEARING    BeginTurn (agent heard: Interrupt first;
                                              about to speak: DropReply, then ContinueTurn)
    HEARING    CallerFellSilent    PAUSED     Recognise
    PAUSED     Recognised          PAUSED     PrepareReply, its audio held back
    PAUSED     CallerSpoke         HEARING    DropReply if prepared, ContinueTurn
    PAUSED     TurnOver            LISTENING  CommitTurn (if not yet recognised: DECIDED)
    DECIDED    Recognised          LISTENING  PrepareReply, CommitTurn
    DECIDED    CallerSpoke         HEARING    ContinueTurn
    both       nothing recognised  LISTENING  AbandonTurn, once the turn is over
    both       RecognitionFailed   LISTENING  AbandonTurn, Apologise

The agent's side is one fact, `Agent`: silent, about to speak (its audio is held or on its way) or
heard. Speech while it is about to speak takes the answer back: both parts of the caller's speech
become one turn, and the answer leaves no trace. Speech while it is heard interrupts it.
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


# ---- events ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallerSpoke:
    """Speech began, or went on, at media time `at`."""

    at: float


@dataclass(frozen=True)
class CallerFellSilent:
    """No speech since media time `speech_end`."""

    speech_end: float


@dataclass(frozen=True)
class TurnOver:
    """The endpoint rule, or the client, says that the turn is over."""


@dataclass(frozen=True)
class Recognised:
    """The final transcript of the turn so far; `empty` if nobody said anything."""

    empty: bool


@dataclass(frozen=True)
class RecognitionFailed:
    """The recogniser broke; the turn can't be answered from words."""


@dataclass(frozen=True)
class AgentHeard:
    """The first audio of the reply went out."""


@dataclass(frozen=True)
class AgentDone:
    """The reply was heard to its end, failed or was cancelled elsewhere."""


@dataclass(frozen=True)
class AgentAsked:
    """Somebody else than the caller's turn made the agent speak (a greeting, the client)."""


Event = CallerSpoke | CallerFellSilent | TurnOver | Recognised | RecognitionFailed | AgentHeard | AgentDone | AgentAsked

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
class Interrupt:
    """Stop the agent now; keep the words that were heard."""


@dataclass(frozen=True)
class AbandonTurn:
    """Nobody said anything: forget the turn."""


@dataclass(frozen=True)
class Apologise:
    """Tell the caller in one sentence that the turn failed."""


Command = (
    BeginTurn | ContinueTurn | Recognise | PrepareReply | CommitTurn | DropReply | Interrupt | AbandonTurn | Apologise
)


class _Result(Enum):
    """What the recogniser made of the turn so far."""

    PENDING = "pending"
    EMPTY = "empty"
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

    def step(self, event: Event) -> list[Command]:
        """Take one event; return what to do, in order."""
        match event:
            case CallerSpoke(at):
                return self._caller_spoke(at)
            case CallerFellSilent(speech_end):
                return self._caller_fell_silent(speech_end)
            case TurnOver():
                return self._turn_over()
            case Recognised(empty):
                return self._recognised(_Result.EMPTY if empty else _Result.WORDS)
            case RecognitionFailed():
                return self._recognition_failed()
            case AgentAsked():
                self._answers_turn = False
                self.agent = Agent.ABOUT_TO_SPEAK
            case AgentHeard():
                self.agent = Agent.HEARD
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
        before, self.agent = self.agent, Agent.SILENT
        if before is Agent.HEARD:
            return [Interrupt(), BeginTurn(at)]
        if before is Agent.ABOUT_TO_SPEAK:
            return [DropReply(), ContinueTurn(at) if self._answers_turn else BeginTurn(at)]
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
        return [CommitTurn() if self._result is _Result.WORDS else AbandonTurn()]

    def _recognised(self, result: _Result) -> list[Command]:
        if self.phase not in (Phase.PAUSED, Phase.DECIDED):
            return []
        decided = self.phase is Phase.DECIDED
        self._result = result
        if decided:
            self.phase = Phase.LISTENING
        if result is _Result.EMPTY:
            return [AbandonTurn()] if decided else []
        prepare: list[Command] = []
        if self.answers:
            self.agent, self._answers_turn = Agent.ABOUT_TO_SPEAK, True
            prepare = [PrepareReply()]
        return [*prepare, CommitTurn()] if decided else prepare

    def _recognition_failed(self) -> list[Command]:
        if self.phase not in (Phase.PAUSED, Phase.DECIDED):
            return []
        self.phase = Phase.LISTENING
        return [AbandonTurn(), Apologise()]

    def _drop(self) -> list[Command]:
        if self.agent is not Agent.ABOUT_TO_SPEAK:
            return []
        self.agent = Agent.SILENT
        return [DropReply()]
