"""Any OpenAI-compatible chat server (vLLM, SGLang, llama-server, a hosted one) through the `openai` client.

Closing the stream makes these servers stop generating. They keep their own prefix caches, so
prefilling is left to them.
"""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from budget.deadline import Stage
from budget.errors import ConfigError, EngineError
from budget.ids import new_id
from llm.chat import MOST_ARGUMENTS, ChatSession, Message, ReplyOptions, ToolCall
from llm.prompt import schema

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAiModel:
    """A server, shared by all calls; connections are pooled."""

    def __init__(self, base_url: str, api_key: str, model: str, *, timeout: float = 20.0) -> None:
        if not base_url:
            raise ConfigError(
                "llm.engine is openai but llm.base_url is empty: name the server, e.g. http://127.0.0.1:8000/v1"
            )
        from openai import AsyncOpenAI  # a slow import that the embedded engine does without

        self._client = AsyncOpenAI(base_url=base_url, api_key=api_key or "none", timeout=timeout, max_retries=0)
        self._model = model

    def open(self) -> ChatSession | None:
        """See `ChatModel`; the server has its own limits, so there is always a place."""
        return OpenAiSession(self._client, self._model)

    async def warm(self) -> None:
        """See `ChatModel`: one short answer, which also proves address, key and model name."""
        session = OpenAiSession(self._client, self._model)
        async for _ in session.reply([Message("user", "Hello.")], ReplyOptions(max_tokens=1)):
            pass

    async def close(self) -> None:
        """See `ChatModel`."""
        await self._client.close()


class OpenAiSession:
    """One call's use of the server."""

    def __init__(self, client: "AsyncOpenAI", model: str) -> None:
        self._client, self._model = client, model

    async def reply(
        self, messages: list[Message], options: ReplyOptions, *, deadline: float = float("inf")
    ) -> AsyncGenerator[str | ToolCall, None]:
        """See `ChatSession`."""
        from openai import OpenAIError, omit

        wire: Any = [_wire(message) for message in messages]
        tools: Any = [schema(tool) for tool in messages[0].tools] if messages else []
        calls: dict[int, ToolCall] = {}
        try:
            stream = await self._client.chat.completions.create(
                model=self._model,
                messages=wire,
                temperature=options.temperature,
                max_tokens=options.max_tokens,
                stream=True,
                tools=tools or omit,
            )
            async with stream:
                async for chunk in stream:
                    if not chunk.choices:
                        continue
                    if text := chunk.choices[0].delta.content:
                        yield text
                    for piece in chunk.choices[0].delta.tool_calls or []:
                        calls[piece.index] = _more(calls.get(piece.index), piece)
            for call in calls.values():
                yield call
        except (OpenAIError, OSError, ValueError) as error:
            raise EngineError(Stage.LLM, f"the chat server failed: {_brief(error)}", retryable=True) from error
        except Exception as error:
            if type(error).__module__.split(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2", "h11"):
                raise EngineError(Stage.LLM, f"the chat server broke off: {_brief(error)}", retryable=True) from error
            raise

    async def prefill(self, messages: list[Message], *, urgent: bool = False) -> None:
        """See `ChatSession`: left to the server."""

    async def whole(self, text: str, *, urgent: bool = False) -> float | None:
        """See `ChatSession`: such a server does not tell what it expects next."""
        return None

    async def close(self) -> None:
        """See `ChatSession`."""


def _wire(message: Message) -> dict[str, Any]:
    if message.call is None:
        return {"role": message.role, "content": message.text}
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call.call_id, "content": message.text}
    function = {"name": message.call.name, "arguments": message.call.arguments}
    called = {"id": message.call.call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": message.text or None, "tool_calls": [called]}


def _more(call: ToolCall | None, piece: Any) -> ToolCall:
    """A call with the next piece of it: its name comes first, its arguments in pieces."""
    call = call or ToolCall(piece.id or new_id("fc"), "", "")
    if piece.function is None:
        return call
    return replace(
        call,
        name=call.name or piece.function.name or "",
        arguments=(call.arguments + (piece.function.arguments or ""))[:MOST_ARGUMENTS],
    )


def _brief(error: Exception) -> str:
    """The first line of an error, without a server's whole answer."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
