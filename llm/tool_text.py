"""Function calls as text: written into a prompt and read from an answer, for models behind a plain template.

The form is the one that Hermes, Qwen and SmolLM2 were trained on: signatures in <tools>, calls in <tool_call>,
results in <tool_response>, each as JSON (NousResearch's "Hermes Function Calling" and Qwen's chat template).
"""

import json
from collections.abc import Iterator, Sequence

from budget.ids import new_id
from llm.chat import MOST_ARGUMENTS, Message, Tool, ToolCall
from llm.prompt import schema_text

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def written(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """The messages as (role, text) with all functions and calls in words; neighbours of one role are joined."""
    turns: list[tuple[str, str]] = []
    for message in messages:
        role, text = _written(message)
        if turns and turns[-1][0] == role and role != "system":
            turns[-1] = (role, f"{turns[-1][1]}\n{text}")
        else:
            turns.append((role, text))
    return turns


def _written(message: Message) -> tuple[str, str]:
    call = message.call
    if message.role == "tool":
        return "user", f"<tool_response>\n{message.text}\n</tool_response>"
    if call is not None:
        return "assistant", f'{_OPEN}\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n{_CLOSE}'
    if message.tools:
        return message.role, f"{message.text}\n\n{_introduction(message.tools)}".strip()
    return message.role, message.text


def _introduction(tools: Sequence[Tool]) -> str:
    signatures = "\n".join(map(schema_text, tools))
    return (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        f"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n{signatures}\n</tools>"
        f"\n\nFor each function call, return a json object with function name and arguments within {_OPEN}{_CLOSE} "
        f'XML tags:\n{_OPEN}\n{{"name": <function-name>, "arguments": <args-json-object>}}\n{_CLOSE}'
    )


class ToolCallReader:
    """Takes an answer's text piece by piece; gives what is to be spoken at once, and calls when they are whole."""

    def __init__(self) -> None:
        self._held = ""
        self._calling = False

    def feed(self, delta: str) -> Iterator[str | ToolCall]:
        """More of the answer."""
        self._held += delta
        while self._held:
            if not self._calling:
                before, found, rest = self._held.partition(_OPEN)
                keep = 0 if found else _begun(before)
                if spoken := before[: len(before) - keep]:
                    yield spoken
                self._held = rest if found else before[len(before) - keep :]
                self._calling = bool(found)
                if not found:
                    return
            else:
                body, found, rest = self._held.partition(_CLOSE)
                if not found:
                    self._held = self._held[: MOST_ARGUMENTS + len(_CLOSE)]
                    return
                self._calling, self._held = False, rest
                if (call := _call(body)) is not None:
                    yield call

    def flush(self) -> Iterator[str | ToolCall]:
        """The answer is over: a model may end at the call's last brace, and "<" may be all there is of a mark."""
        held, self._held = self._held, ""
        if not self._calling:
            if held:
                yield held
        elif (call := _call(held)) is not None:
            yield call


def _begun(text: str) -> int:
    """How many of the last characters may be the beginning of a call."""
    return next((n for n in range(len(_OPEN) - 1, 0, -1) if text.endswith(_OPEN[:n])), 0)


def _call(body: str) -> ToolCall | None:
    """The call; None if it is none."""
    if len(body) > MOST_ARGUMENTS:
        return None
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(said, list):  # SmolLM2 writes a list of one
        said = said[0] if said else None
    if not isinstance(said, dict) or not isinstance(said.get("name"), str):
        return None
    arguments = said.get("arguments", said.get("parameters")) or {}
    written_out = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(new_id("fc"), said["name"][:64], written_out)
