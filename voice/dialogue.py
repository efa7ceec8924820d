"""What was said in a call, as the next answer must know it: of the agent's words only those that were heard."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from llm.chat import Message, Tool, ToolCall
from llm.prompt import estimated_tokens

_NO_RESULT = "(no result yet)"


@dataclass(frozen=True)
class SpokenClause:
    """One clause as it was queued for the caller: its text and how long its audio is (seconds)."""

    text: str
    seconds: float


def heard_text(clauses: Iterable[SpokenClause], heard: float) -> str:
    """The words whose audio was played within the first `heard` seconds.

    A clause that was cut counts word by word, each word's share of its time being its share of
    letters: engines give no word times. A word counts when its last letter was played.
    """
    said: list[str] = []
    for clause in clauses:
        if heard >= clause.seconds - 1e-6:
            said.append(clause.text)
            heard -= clause.seconds
            continue
        said.append(_cut(clause, heard))
        break
    return "".join(said).strip()


def _cut(clause: SpokenClause, heard: float) -> str:
    letters = sum(c.isalnum() for c in clause.text)
    if heard <= 0 or not letters:
        return ""
    may = letters * heard / clause.seconds
    counted, end = 0, 0
    for i, c in enumerate(clause.text):
        counted += c.isalnum()
        if counted > may + 1e-9:
            break
        upcoming = clause.text[i + 1 : i + 2]
        word_ends = not upcoming.isalnum() or ord(upcoming) >= 0x2E80
        if c.isalnum() and word_ends:
            end = i + 1
    return clause.text[:end]


@dataclass(frozen=True)
class Entry:
    """One message of the conversation, named as the client knows it.

    `call`: what the assistant called, or what a "tool" entry is the result of.
    """

    item_id: str
    role: Literal["system", "user", "assistant", "tool"]
    text: str
    clauses: tuple[SpokenClause, ...] = ()
    call: ToolCall | None = None

    @property
    def message(self) -> Message:
        """The entry as the model sees it."""
        return Message(self.role, self.text, call=self.call)


class Dialogue:
    """The conversation of one call, oldest first; at most `limit` entries are kept."""

    def __init__(self, instructions: str, *, limit: int = 400) -> None:
        self.instructions = instructions
        self.tools: tuple[Tool, ...] = ()
        """What the model may call."""
        self._entries: list[Entry] = []
        self._limit = limit

    def add(self, entry: Entry) -> None:
        """Append, or replace the entry of the same id."""
        for i, old in enumerate(self._entries):
            if old.item_id == entry.item_id:
                self._entries[i] = entry
                return
        self._entries.append(entry)
        del self._entries[: -self._limit]

    def remove(self, item_id: str) -> bool:
        """Take an entry out; False if there is none of that id."""
        before = len(self._entries)
        self._entries = [entry for entry in self._entries if entry.item_id != item_id]
        return len(self._entries) < before

    def find(self, item_id: str) -> Entry | None:
        """The entry of that id."""
        return next((entry for entry in self._entries if entry.item_id == item_id), None)

    def truncate(self, item_id: str, heard: float) -> str | None:
        """Cut a spoken reply to what was heard in its first `heard` seconds; the text left, None if unknown.

        A reply of which nothing was heard leaves no trace.
        """
        entry = self.find(item_id)
        if entry is None or entry.role != "assistant":
            return None
        text = heard_text(entry.clauses, heard)
        if len(text) < len(entry.text.strip()):
            if text:
                self.add(replace(entry, text=text))
            else:
                self.remove(item_id)
        return text

    def trim(self, budget: int, *, reserve: int = 120, keep: float = 0.5) -> None:
        """Forget the oldest turns once the prompt and `reserve` tokens for what comes exceed `budget` tokens.

        Done between turns and in one large step, so that the model reads the shorter prompt while
        nobody waits for it, and then keeps its cache for many turns.
        """
        sizes = [estimated_tokens(entry.message) for entry in self._entries]
        used = sum(sizes) + estimated_tokens(self._system())
        if used + reserve <= budget:
            return
        first = 0
        while first < len(sizes) - 1 and (used > budget * keep or self._entries[first].role != "user"):
            used -= sizes[first]
            first += 1
        del self._entries[:first]

    def entries(self) -> tuple[Entry, ...]:
        """The conversation so far."""
        return tuple(self._entries)

    def _system(self) -> Message:
        return Message("system", self.instructions, tools=self.tools)

    def messages(self, upcoming: str = "") -> list[Message]:
        """The prompt: instructions, the conversation, and the caller's words not yet in it.

        Successive messages of one role are joined, since many chat templates want them to alternate. Each call of
        a function is followed by its result, which servers insist on.
        """
        turns = [self._system()] if self.instructions or self.tools else []
        results = {e.call.call_id: e for e in self._entries if e.role == "tool" and e.call is not None}
        said: list[Message] = []
        for entry in self._entries:
            if entry.call is not None:
                if entry.role == "assistant":
                    result = results.get(entry.call.call_id)
                    said += [entry.message, result.message if result else Message("tool", _NO_RESULT, call=entry.call)]
            elif entry.text.strip():
                said.append(entry.message)
        if upcoming.strip():
            said.append(Message("user", upcoming))
        for message in said:
            joins = message.call is None and message.role != "system"
            if joins and turns and turns[-1].role == message.role and turns[-1].call is None:
                turns[-1] = Message(message.role, f"{turns[-1].text} {message.text}")
            else:
                turns.append(message)
        return turns
