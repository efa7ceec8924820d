"""The functions by which the model acts on the line: how they are told to it, and what a call of one asks for."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from budget.errors import PeerError
from llm.chat import ToolCall
from transport.requests import LONGEST_REST, MOST_KEYS, Action, Part, ReadKeys, Rest, SendKeys, Tool, Transfer
from voice.session import CallSettings

HANG_UP, TRANSFER, PRESS_KEYS, READ_KEYS, HOLD = "hang_up", "transfer_call", "press_keys", "read_keys", "hold"


def _schema(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def offered(settings: CallSettings) -> tuple[Tool, ...]:
    """All that the model may call: the client's functions, and those of ours that the operator allows.

    A client's function goes before ours of the same name.
    """
    theirs = {tool.name for tool in settings.tools}
    ours = (_TOLD[name](settings) for name in settings.line_tools if name not in theirs)
    return (*settings.tools, *(tool for tool in ours if tool is not None))


def action(call: ToolCall, settings: CallSettings) -> Action:
    """What a call of one of our functions asks for. Raises `PeerError` if it can't be understood."""
    if call.name not in settings.line_tools:
        raise PeerError("unknown_function", f"there is no function {call.name!r}")
    try:
        arguments = json.loads(call.arguments or "{}")
        if not isinstance(arguments, dict):
            raise TypeError("arguments are a JSON object")
        return _MEANT[call.name](arguments, settings)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise PeerError("invalid_arguments", f"{call.name} was called with arguments that make no sense") from error


def _transfer_told(settings: CallSettings) -> Tool | None:
    if not settings.transfers:
        return None
    to = {"type": "string", "enum": sorted(settings.transfers)}
    text = "Hand the caller over to a person or department. Say so first; the conversation with you ends."
    return Tool(TRANSFER, text, _schema(("to",), to=to))


_TOLD: Mapping[str, Callable[[CallSettings], Tool | None]] = {
    HANG_UP: lambda _: Tool(HANG_UP, "End the call, after you said goodbye.", _schema()),
    TRANSFER: _transfer_told,
    PRESS_KEYS: lambda _: Tool(
        PRESS_KEYS,
        "Press keys of the telephone, for a machine at the other end.",
        _schema(("keys",), keys={"type": "string", "description": "0-9, * and #"}),
    ),
    READ_KEYS: lambda _: Tool(
        READ_KEYS,
        "Wait for keys that the caller presses, after you asked for them. They end it with #.",
        _schema(digits={"type": "integer", "description": "how many at most"}),
    ),
    HOLD: lambda _: Tool(
        HOLD,
        "Stay silent for a while, when the caller asks you to hold on.",
        _schema(("seconds",), seconds={"type": "number"}),
    ),
}


def _transfer(arguments: Mapping[str, Any], settings: CallSettings) -> Action:
    return Transfer(settings.transfers[str(arguments["to"])])


def _read_keys(arguments: Mapping[str, Any], _: CallSettings) -> Action:
    return ReadKeys(most=min(MOST_KEYS, max(1, int(arguments.get("digits") or MOST_KEYS))))


_MEANT: Mapping[str, Callable[[Mapping[str, Any], CallSettings], Action]] = {
    HANG_UP: lambda *_: Part(),
    TRANSFER: _transfer,
    PRESS_KEYS: lambda arguments, _: SendKeys(str(arguments["keys"])),
    READ_KEYS: _read_keys,
    HOLD: lambda arguments, _: Rest(min(LONGEST_REST, max(1.0, float(arguments["seconds"])))),
}
