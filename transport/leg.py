"""The one interface between a call and whatever protocol carries it.

A leg yields what comes from the client (`AudioFrame`s and `Request`s) and takes what goes back:
20 ms of audio at a time with `play`, and `Notice`s with `notify`. Protocol shells translate both
ways and decide nothing about the conversation.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from budget.errors import PeerError
from transport.frame import Pcm
from transport.requests import FromClient, SessionOptions


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
    """A message entered the conversation: a client's text, the caller's words, or a function's result (`call_id`)."""

    item_id: str
    role: str
    text: str
    spoken: bool = False
    call_id: str = ""


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


class Called(Protocol):
    """A call of a function by the model."""

    @property
    def call_id(self) -> str:
        """Names it towards whoever answers."""
        ...

    @property
    def name(self) -> str:
        """The function's name."""
        ...

    @property
    def arguments(self) -> str:
        """JSON, as the model wrote it."""
        ...


@dataclass(frozen=True)
class ReplyEnded:
    """The reply is over: its whole text, how it ended, and which of the client's functions it calls."""

    reply_id: str
    item_id: str
    text: str
    outcome: Literal["completed", "cancelled", "failed"]
    reason: str = ""
    audio: bool = True
    tokens: int = 0
    calls: tuple[Called, ...] = ()


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

    async def press(self, keys: str) -> None:
        """Press keys (0-9, *, #, A-D) towards the other side. Raises `PeerError`."""
        ...

    async def transfer(self, target: str) -> None:
        """Hand the caller over; the call is over then. Raises `PeerError` if it fails: the call goes on."""
        ...

    async def hangup(self, reason: str) -> None:
        """End the connection politely. Safe to call twice."""
        ...


class NoTelephone:
    """What a leg says to what only some telephone lines can do."""

    async def press(self, keys: str) -> None:
        """See `CallLeg`."""
        raise PeerError("unsupported", "keys can be pressed over a SIP line only")

    async def transfer(self, target: str) -> None:
        """See `CallLeg`."""
        raise PeerError("unsupported", "only a call over a SIP line can be transferred")
