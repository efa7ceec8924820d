"""The keys of the caller's telephone: pressed one by one, answered together as a turn of the call.

A press stops the agent, as speech would. The keys are complete with "#", after a pause, or when they are
many; "#" alone is a key like any other.
"""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from budget.errors import PeerError
from transport.requests import ReadKeys
from voice.speaking import begin_reply, stop_agent
from voice.turn_taking import Agent

if TYPE_CHECKING:
    from voice.call import Call

KEYS = frozenset("0123456789*#ABCD")


@dataclass
class Keypad:
    """The keys pressed since the last answer. Times are loop seconds."""

    rule: ReadKeys = field(default_factory=ReadKeys)
    """How many there may be, and what ends them."""
    pressed: str = ""
    _last: float = 0.0
    _ended: bool = False

    def press(self, key: str, now: float) -> None:
        """Take one key. Raises `PeerError` if telephones have none of that name."""
        if len(key) != 1 or key.upper() not in KEYS:
            raise PeerError("invalid_digit", f"no such key: {key[:8]!r}")
        self._last = now
        if key == self.rule.terminator and self.pressed:
            self._ended = True
            return
        self.pressed = (self.pressed + key.upper())[: self.rule.most]
        self._ended = self._ended or key == self.rule.terminator or len(self.pressed) == self.rule.most

    def complete(self, now: float) -> bool:
        """Whether no more keys are awaited."""
        return bool(self.pressed) and (self._ended or now - self._last >= self.rule.pause)

    def take(self) -> str:
        """The keys; none are pressed afterwards, and the next ones are read as usual."""
        self.rule = ReadKeys()
        keys, self.pressed, self._ended = self.pressed, "", False
        return keys


async def press(call: "Call", key: str) -> None:
    """A key was pressed: the agent stops, unless the caller just speaks; complete keys are answered.

    Raises `PeerError`.
    """
    now = asyncio.get_running_loop().time()
    call.keypad.press(key, now)
    if call.turns.open is None and call.talk.agent is not Agent.SILENT:
        await stop_agent(call, "keys_pressed")
    await answer(call, now)


async def answer(call: "Call", now: float) -> None:
    """Answer complete keys, unless the caller is speaking or being answered: then a little later."""
    if not call.keypad.complete(now) or call.turns.open is not None or call.talk.agent is not Agent.SILENT:
        return
    if call.controls.reading is not None:
        await call.controls.read(call.keypad.take())
        return
    await call.turns.typed(f"[keys: {call.keypad.take()}]", call.hearing.now, now)
    if call.talk.answers:
        await begin_reply(call, call.settings)
