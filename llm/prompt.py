"""The prompt: a stable prefix that stays cached, and a history that fits the context.

System prompt and past turns never change once written, so each turn's prompt begins with the
last one's and only the new words are computed. When it grows over the budget, the oldest turns go
in one large step, since each such step costs the whole cache once.
"""

import json
from typing import Any

from llm.chat import Message, Tool

SYSTEM_PROMPT = (
    "You are a friendly voice assistant in a phone call. "
    "Answer in one or two short, natural spoken sentences. "
    "Do not use lists, markdown, code or emoji."
)

_CHARACTERS_A_TOKEN = 3
WIDE = 0x0E00
"""Scripts from here on: Thai, Chinese, Japanese, Korean."""
_OVERHEAD = 8
"""Tokens a message costs beside its text: role and separators."""


def estimated_tokens(message: Message) -> int:
    """A cautious estimate: three characters a token, one where the script is Chinese, Japanese or Thai, or a figure.

    Many models read a figure digit by digit; what stands between figures is a token as well.
    """
    text = message.text + "".join(map(schema_text, message.tools))
    if message.call is not None:
        text += message.call.name + message.call.arguments
    wide = sum(ord(c) >= WIDE or not (c.isalpha() or c.isspace()) for c in text)
    return (len(text) - wide) // _CHARACTERS_A_TOKEN + wide + _OVERHEAD


def schema(tool: Tool) -> dict[str, Any]:
    """A function as models are told of it (OpenAI's form, which others took over)."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def schema_text(tool: Tool) -> str:
    """The same in JSON."""
    return json.dumps(schema(tool), ensure_ascii=False)


def fit(messages: list[Message], budget: int, *, keep: float = 0.5) -> list[Message]:
    """The messages that fit `budget` tokens: the system prompt, then the newest, from a user's turn on.

    The cut is found by going through the conversation as it grew: whenever it went over the budget,
    it was cut to `keep` of it. So the cut stays where it is for many turns. The last message always stays.
    """
    system = [m for m in messages[:1] if m.role == "system"]
    history = messages[len(system) :]
    base = sum(map(estimated_tokens, system))
    first, used = 0, base
    for i, message in enumerate(history):
        used += estimated_tokens(message)
        if used <= budget:
            continue
        while first < i and (used > budget * keep or history[first].role != "user"):
            used -= estimated_tokens(history[first])
            first += 1
    return [*system, *history[first:]]
