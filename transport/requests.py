"""What comes from a client, of whatever protocol: the caller's audio and keys, and what the client asks of its call."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from transport.frame import AudioFrame


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
class Tool:
    """A function that the client offers to the model; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


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
    tools: tuple[Tool, ...] | None = None


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
class AddToolResult:
    """What the function returned that the model called as `call_id`. It is answered when the client asks for it."""

    item_id: str
    call_id: str
    output: str


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


# ---- what is done with a telephone line, by the client or the model --------------------------


@dataclass(frozen=True)
class Part:
    """Say goodbye: end the call from our side."""


@dataclass(frozen=True)
class Transfer:
    """Hand the caller over to `target`: a number, a SIP URI or whatever the line understands."""

    target: str


@dataclass(frozen=True)
class SendKeys:
    """Press keys towards the other side."""

    keys: str


MOST_KEYS = 32
"""Keys that are read at once."""
LONGEST_REST = 120.0
"""Seconds that a call may be held."""


@dataclass(frozen=True)
class ReadKeys:
    """Read keys of the caller's: at most `most`, ended by `terminator` or by `pause` seconds without one.

    `patience`: seconds until the first.
    """

    most: int = MOST_KEYS
    terminator: str = "#"
    pause: float = 2.5
    patience: float = 15.0


@dataclass(frozen=True)
class Rest:
    """Hold: say and answer nothing for so many seconds."""

    seconds: float


Action = Part | Transfer | SendKeys | ReadKeys | Rest


@dataclass(frozen=True)
class Act:
    """Do this, once what is being said was heard; `say` something before it. `done` gets its outcome in words.

    `done` gets a `PeerError` where it can't be done.
    """

    action: Action
    say: str = ""
    done: "asyncio.Future[str] | None" = None


Request = (
    ChangeSession
    | AddMessage
    | AddToolResult
    | DeleteMessage
    | CreateReply
    | CancelReply
    | TruncateReply
    | CommitAudio
    | ClearAudio
    | PressKey
    | Hold
    | Act
    | HangUp
)
FromClient = AudioFrame | Request
