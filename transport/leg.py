"""The one interface between a call and whatever protocol carries it.

A leg yields what comes from the client (`AudioFrame`s and `Request`s) and takes what goes back:
20 ms of audio at a time with `play`, and `Notice`s with `notify`. Protocol shells translate both
ways and decide nothing about the conversation.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from transport.frame import AudioFrame, Pcm

# ---- from the client -------------------------------------------------------------------------


@dataclass(frozen=True)
class TurnDetection:
    """Who decides that the caller is done: the service (`automatic`) or the client's commit.

    `answer`: reply by itself at the end of a turn. `interrupt`: the caller's speech stops the agent.
    `silence` in seconds: a fixed wait instead of a decision by meaning. `eagerness`: how soon an unsure
    end is taken for one.
    """

    automatic: bool = True
    answer: bool = True
    interrupt: bool = True
    silence: float | None = None
    eagerness: Literal["low", "medium", "high"] = "medium"


@dataclass(frozen=True)
class SessionOptions:
    """What a client may set for its call; None leaves the operator's setting."""

    instructions: str | None = None
    greeting: str | None = None
    language: str | None = None
    voice: str | None = None
    speed: float | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    audio: bool | None = None
    """False: replies are text only."""
    turn_detection: TurnDetection | None = None


@dataclass(frozen=True)
class ChangeSession:
    """Apply these options from now on. `greet`: say the greeting, if nothing was said yet."""

    options: SessionOptions
    greet: bool = False


@dataclass(frozen=True)
class AddMessage:
    """Put a text message into the conversation, without answering it."""

    item_id: str
    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True)
class DeleteMessage:
    """Take a message out of the conversation."""

    item_id: str


@dataclass(frozen=True)
class CreateReply:
    """Answer now. The options hold for this reply only."""

    options: SessionOptions = field(default_factory=SessionOptions)


@dataclass(frozen=True)
class CancelReply:
    """Stop the reply in progress. `flush`: and drop the audio that has not been played."""

    flush: bool = True


@dataclass(frozen=True)
class TruncateReply:
    """The client played only `heard` seconds of this reply's audio."""

    item_id: str
    heard: float


@dataclass(frozen=True)
class CommitAudio:
    """The caller's turn is over, says the client."""


@dataclass(frozen=True)
class ClearAudio:
    """Forget the audio since the last turn."""


@dataclass(frozen=True)
class PressKey:
    """The caller pressed a key of their telephone: one of 0-9, *, #, A-D."""

    key: str


@dataclass(frozen=True)
class Hold:
    """The caller put the call on hold, or took it back: meanwhile nobody hears the agent."""

    held: bool


@dataclass(frozen=True)
class HangUp:
    """The client ended the call."""

    reason: str = "client"


Request = (
    ChangeSession
    | AddMessage
    | DeleteMessage
    | CreateReply
    | CancelReply
    | TruncateReply
    | CommitAudio
    | ClearAudio
    | PressKey
    | Hold
    | HangUp
)
FromClient = AudioFrame | Request

# ---- to the client ---------------------------------------------------------------------------


@dataclass(frozen=True)
class CallerStarted:
    """The caller began to speak at media time `at` (seconds); `item_id` names the turn to come."""

    item_id: str
    at: float


@dataclass(frozen=True)
class CallerStopped:
    """The caller's turn ended at media time `at`."""

    item_id: str
    at: float


@dataclass(frozen=True)
class CallerHeard:
    """What the caller said so far; `text[:committed]` won't change, nothing will when `final`."""

    item_id: str
    text: str
    committed: int
    final: bool
    seconds: float = 0.0


@dataclass(frozen=True)
class MessageAdded:
    """A message entered the conversation: a client's text, or the caller's words."""

    item_id: str
    role: str
    text: str
    spoken: bool = False


@dataclass(frozen=True)
class MessageDeleted:
    """A message left the conversation."""

    item_id: str


@dataclass(frozen=True)
class ReplyStarted:
    """A reply began to reach the client."""

    reply_id: str
    item_id: str
    audio: bool


@dataclass(frozen=True)
class ReplyText:
    """More of the reply's text, at the time its audio is sent (or at once without audio)."""

    reply_id: str
    item_id: str
    text: str


@dataclass(frozen=True)
class ReplyCut:
    """The reply was cut off: the caller heard `heard` seconds, which are the words in `text`."""

    item_id: str
    heard: float
    text: str


@dataclass(frozen=True)
class ReplyEnded:
    """The reply is over: its whole text, and how it ended."""

    reply_id: str
    item_id: str
    text: str
    outcome: Literal["completed", "cancelled", "failed"]
    reason: str = ""
    audio: bool = True
    tokens: int = 0


@dataclass(frozen=True)
class TurnMeasured:
    """One turn's record: timings in milliseconds, outcome, texts."""

    record: dict[str, Any]


@dataclass(frozen=True)
class SessionChanged:
    """The options in force, after a change or at the start."""

    options: SessionOptions


@dataclass(frozen=True)
class CallTrouble:
    """Something the client should know: a stable code and a sentence."""

    code: str
    message: str


Notice = (
    CallerStarted
    | CallerStopped
    | CallerHeard
    | MessageAdded
    | MessageDeleted
    | ReplyStarted
    | ReplyText
    | ReplyCut
    | ReplyEnded
    | TurnMeasured
    | SessionChanged
    | CallTrouble
)


class CallLeg(Protocol):
    """One client's connection as a call sees it."""

    @property
    def rate(self) -> int:
        """Hz of the audio that `play` takes; it may change between two replies."""
        ...

    @property
    def kind(self) -> str:
        """The protocol's name, for logs and metrics."""
        ...

    @property
    def greets(self) -> bool:
        """Whether the caller expects to be greeted: on a telephone, yes; an API client says so itself."""
        ...

    @property
    def about(self) -> Mapping[str, str]:
        """What the protocol tells of the call: `from`, `to`, ids, headers, by lower-case name."""
        ...

    def frames(self) -> AsyncIterator[FromClient]:
        """Everything from the client, in order; ends when it is gone.

        Raises `PeerError` when the client broke its protocol beyond repair.
        """
        ...

    async def play(self, pcm: Pcm) -> None:
        """Send 20 ms of agent audio (float32 (rate / 50,)). Called at real-time pace."""
        ...

    async def flush(self) -> float:
        """Drop what the client has buffered; returns the seconds sent that it is known not to have played."""
        ...

    async def notify(self, notice: Notice) -> None:
        """Tell the client; protocols without a word for it say nothing."""
        ...

    async def hangup(self, reason: str) -> None:
        """End the connection politely. Safe to call twice."""
        ...
