"""The prompt: a stable prefix that stays cached, and a history that fits the context.

System prompt and past turns never change once written, so each turn's prompt begins with the
last one's and only the new words are computed. When it grows over the budget, the oldest turns go
in one large step, since each such step costs the whole cache once.
"""

from llm.chat import Message

SYSTEM_PROMPT = (
    "You are a friendly voice assistant in a phone call. "
    "Answer in one or two short, natural spoken sentences. "
    "Do not use lists, markdown, code or emoji."
)

_CHARACTERS_A_TOKEN = 3
_OVERHEAD = 8
"""Tokens a message costs beside its text: role and separators."""


def estimated_tokens(message: Message) -> int:
    """A cautious estimate: three characters a token, one where the script is Chinese, Japanese or Thai."""
    wide = sum(ord(c) >= 0x0E00 for c in message.text)
    return (len(message.text) - wide) // _CHARACTERS_A_TOKEN + wide + _OVERHEAD


def fit(messages: list[Message], budget: int, *, keep: float = 0.5) -> list[Message]:
    """The messages that fit `budget` tokens: the system prompt, then the newest.

    Once over the budget, history is cut to `keep` of it at the start of a user's turn, so that the
    cut happens rarely. The last message always stays.
    """
    total = sum(map(estimated_tokens, messages))
    if total <= budget or len(messages) <= 2:
        return messages
    system = [m for m in messages[:1] if m.role == "system"]
    history = messages[len(system) :]
    room = budget * keep - sum(map(estimated_tokens, system))
    first = len(history) - 1
    used = estimated_tokens(history[first])
    while first > 0 and used + estimated_tokens(history[first - 1]) <= room:
        first -= 1
        used += estimated_tokens(history[first])
    while first < len(history) - 1 and history[first].role != "user":
        first += 1
    return [*system, *history[first:]]
