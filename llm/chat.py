"""The chat model's Protocol: messages in, text deltas out; cancelling closes the generator."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

MOST_ARGUMENTS = 8_000
"""Characters of one call of a function; what is longer is none."""

Role = Literal["system", "user", "assistant", "tool"]


class Tool(Protocol):
    """A function that the model may call."""

    @property
    def name(self) -> str:
        """Letters, digits, _ and -."""
        ...

    @property
    def description(self) -> str:
        """What it does and when to call it, for the model."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """A JSON schema of its arguments."""
        ...


@dataclass(frozen=True)
class ToolCall:
    """The model calls a function; `arguments` is JSON as the model wrote it, not yet checked."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Message:
    """One entry of the conversation as the model sees it.

    `tools`: of the system message, what the model may call. `call`: what the assistant called instead of
    speaking, or what a "tool" message is the result of.
    """

    role: Role
    text: str
    tools: tuple[Tool, ...] = ()
    call: ToolCall | None = None


@dataclass(frozen=True)
class ReplyOptions:
    """How to answer: at most `max_tokens`, at this `temperature`."""

    temperature: float = 0.3
    max_tokens: int = 120


class ChatSession(Protocol):
    """One call's place in a chat model: the prompt cache is kept between its turns."""

    def reply(
        self, messages: list[Message], options: ReplyOptions, *, deadline: float = float("inf")
    ) -> AsyncGenerator[str | ToolCall, None]:
        """Stream the answer as text deltas and calls of functions. Closing the generator stops the model at once.

        Raises `EngineError` when the engine fails.
        """
        ...

    async def prefill(self, messages: list[Message], *, urgent: bool = False) -> None:
        """Put the prompt so far into the cache, the last message left open-ended: more of it may come.

        May be dropped while another of this session runs, which an `urgent` one never is. Never raises.
        """
        ...

    async def whole(self, text: str, *, urgent: bool = False) -> float | None:
        """The probability that what was said is a whole sentence.

        None where the engine can't tell, or where the request was dropped as in `prefill`. Never raises.
        """
        ...

    async def close(self) -> None:
        """Give the place back."""
        ...


class ChatModel(Protocol):
    """The shared engine."""

    def open(self) -> ChatSession | None:
        """A place for one call; None when all are taken."""
        ...

    async def warm(self) -> None:
        """Load and run once, so that the first caller does not pay for it. Raises `EngineError`."""
        ...

    async def close(self) -> None:
        """Free everything."""
        ...
