"""What is done with the line of one call, by its model or by who controls it: one thing at a time, once nobody speaks.

A thing is done when what the agent says was heard to its end: "I'll put you through" comes before the transfer. What
the model called in an answer that was cut off is not done at all. Results go back to the model, which then goes on.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

import structlog

from budget.errors import PeerError
from llm.chat import ToolCall
from transport.requests import Act, Action, Part, ReadKeys, Rest, SendKeys, Transfer
from voice.dialogue import Entry
from voice.line_tools import action
from voice.speaking import begin_reply, say
from voice.turn_taking import Agent

if TYPE_CHECKING:
    from voice.call import Call

log = structlog.get_logger(__name__)

_MOST_WAITING = 8
_MOST_ROUNDS = 3
"""Answers in a row that the model may give to results of its own calls, until the caller says something."""
_NO_KEYS = "no keys were pressed"


@dataclass(frozen=True)
class Deed:
    """Something to be done: who asked for it is told."""

    action: Action
    say: str = ""
    call: ToolCall | None = None
    done: "asyncio.Future[str] | None" = None


@dataclass(frozen=True)
class Acted:
    """Something was done, or failed."""

    deed: Deed
    outcome: str
    error: PeerError | None = None


class Controls:
    """Owned by one call's loop."""

    def __init__(self, call: "Call", tasks: asyncio.TaskGroup) -> None:
        self._call, self._tasks = call, tasks
        self._waiting: deque[Deed] = deque()
        self._rounds = 0
        self.doing: Deed | None = None
        """What is being done now."""
        self._until = 0.0

    @property
    def reading(self) -> ReadKeys | None:
        """How keys are read now, if they are."""
        return self.doing.action if self.doing is not None and isinstance(self.doing.action, ReadKeys) else None

    async def ask(self, act: Act) -> None:
        """Who controls the call wants this."""
        if len(self._waiting) >= _MOST_WAITING:
            _tell(act.done, error=PeerError("too_many_actions", "too much is to be done with this call already"))
            return
        self._waiting.append(Deed(act.action, act.say, done=act.done))
        await self.go_on()

    async def called(self, calls: Sequence[ToolCall], theirs: frozenset[str]) -> None:
        """The model called these functions in an answer that was heard; `theirs` are the client's to do."""
        call, refused = self._call, False
        for one in calls[:_MOST_WAITING]:
            call.dialogue.add(Entry(one.call_id, "assistant", "", call=one))
            if one.name in theirs:
                continue
            try:
                self._waiting.append(Deed(action(one, call.settings), call=one))
            except PeerError as error:
                self._result(one, str(error))
                refused = True
        if refused and not self._waiting:
            await self._answer()

    async def go_on(self) -> None:
        """Do what waits, if nobody speaks."""
        call = self._call
        if self.doing or not self._waiting or call.talk.agent is not Agent.SILENT or call.turns.open is not None:
            return
        deed = self._waiting.popleft()
        if deed.say:
            self._waiting.appendleft(replace(deed, say=""))
            await say(call, deed.say)
        elif isinstance(deed.action, Part):
            _tell(deed.done, "ended")
            call.hang_up("agent hung up")
        else:
            self._begin(deed)

    def _begin(self, deed: Deed) -> None:
        self.doing = deed
        if isinstance(deed.action, ReadKeys):
            self._call.keypad.rule = deed.action
            self._until = asyncio.get_running_loop().time() + deed.action.patience
            return
        self._call.talk.answers = False  # nobody is to be answered meanwhile
        self._tasks.create_task(self._do(deed))

    async def _do(self, deed: Deed) -> None:
        try:
            match deed.action:
                case Transfer(target):
                    await self._call.leg.transfer(target)
                case SendKeys(keys):
                    await self._call.leg.press(keys)
                case Rest(seconds):
                    await asyncio.sleep(seconds)
                case Part() | ReadKeys():
                    raise AssertionError("done by the call's loop")
                case _:
                    assert_never(deed.action)
            self._call.post(Acted(deed, "done"))
        except PeerError as error:
            log.warning("not done", action=type(deed.action).__name__, code=error.code, error=str(error))
            self._call.post(Acted(deed, "", error))

    async def acted(self, acted: Acted) -> None:
        """Something was done, or failed."""
        deed, self.doing = acted.deed, None
        self._call.adopt(self._call.settings)
        _tell(deed.done, acted.outcome, acted.error)
        if isinstance(deed.action, Transfer) and acted.error is None:
            self._call.hang_up("transferred")
            return
        if deed.call is not None:
            self._result(deed.call, str(acted.error) if acted.error else acted.outcome)
            if not self._waiting:
                await self._answer()
        await self.go_on()

    async def read(self, keys: str) -> None:
        """The caller pressed these keys, which were awaited."""
        if self.doing is not None:
            await self.acted(Acted(self.doing, keys or _NO_KEYS))

    async def spoken(self) -> None:
        """The caller's turn is committed: keys are awaited no longer, and the model may act again."""
        self._rounds = 0
        if self.reading is not None and self.doing is not None:
            deed, self.doing = self.doing, None
            self._call.keypad.rule = ReadKeys()
            _tell(deed.done, error=PeerError("caller_spoke", "the caller spoke instead of pressing keys"))
            if deed.call is not None:
                self._result(deed.call, "the caller spoke instead")

    async def look(self, now: float) -> None:
        """Once a second: what waits, and whether keys were awaited long enough."""
        if self.reading is not None and now >= self._until and not self._call.keypad.pressed:
            await self.read("")
        await self.go_on()

    def over(self) -> None:
        """The call is over: tell who still waits."""
        for deed in (*self._waiting, *([self.doing] if self.doing else [])):
            _tell(deed.done, error=PeerError("call_over", "the call is over"))

    def _result(self, one: ToolCall, outcome: str) -> None:
        self._call.dialogue.add(Entry(f"{one.call_id}_result", "tool", outcome, call=one))

    async def _answer(self) -> None:
        """Let the model go on, by what came of its calls."""
        self._rounds += 1
        if self._rounds <= _MOST_ROUNDS and self._call.talk.agent is Agent.SILENT and self._call.turns.open is None:
            await begin_reply(self._call, self._call.settings)


def _tell(done: "asyncio.Future[str] | None", outcome: str = "", error: PeerError | None = None) -> None:
    if done is None or done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(outcome)
