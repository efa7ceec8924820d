"""How the agent's turns begin and end: asked for, heard, finished, interrupted, taken back. Runs on the call's loop."""

import asyncio
from typing import TYPE_CHECKING

from budget.errors import EngineError
from transport.leg import CallTrouble
from voice.records import Outcome
from voice.reply import RECOGNITION_FAILED, fixed
from voice.session import CallSettings
from voice.turn_taking import AgentAsked, AgentDone, AgentHeard

if TYPE_CHECKING:
    from voice.call import Call


async def greet(call: "Call") -> None:
    """Say the greeting, if there is one."""
    if call.settings.greeting:
        await say(call, call.settings.greeting)


async def say(call: "Call", said: str | EngineError) -> None:
    """Say this, or apologise for it, without being spoken to. The agent must be silent."""
    await call.talk_about(AgentAsked())
    call.answering.say(fixed(said), call.settings)
    await call.answering.release()


async def begin_reply(call: "Call", settings: CallSettings) -> None:
    """Let the model speak without being spoken to: an answer that the client asked for, or the next of its own."""
    await call.talk_about(AgentAsked())
    now = asyncio.get_running_loop().time()
    call.answering.answer(settings, "", deadline=now + settings.target)
    await call.answering.release()


async def apologise(call: "Call") -> None:
    """The caller's words were lost: say so."""
    await call.leg.notify(CallTrouble(RECOGNITION_FAILED.code, str(RECOGNITION_FAILED)))
    await say(call, RECOGNITION_FAILED)


async def audible(call: "Call", reply_id: str, at: float) -> None:
    """The reply's first audio went out at loop time `at`."""
    reply = call.answering.reply
    if reply is None or reply.reply_id != reply_id:
        return
    reply.stamps.setdefault("first_sent", at)
    call.turns.audible(at, call.settings.target, reply.first_sound_took)
    await call.talk_about(AgentHeard(call.hearing.now))


async def finished(call: "Call", reply_id: str) -> None:
    """The reply ended by itself: what it called is done now."""
    reply = call.answering.reply
    if reply is None or reply.reply_id != reply_id:
        return
    ended = await call.answering.finish()
    await call.talk_about(AgentDone())
    call.active = asyncio.get_running_loop().time()
    if ended is not None:
        call.observer.spoken(ended.reply)
        await call.close_turn(Outcome.FAILED if ended.reply.error else Outcome.ANSWERED, ended)
        await call.controls.called(ended.reply.calls, ended.reply.offered)
    if call.answering.reply is None:
        call.warm_prompt("")
        await call.controls.go_on()


async def stop_agent(call: "Call", reason: str, *, flush: bool = True, heard: float | None = None) -> None:
    """Stop the reply in progress; what was heard of it stays in the conversation."""
    ended = await call.answering.interrupt(reason, flush=flush, heard=heard)
    if ended is None:
        return
    call.observer.spoken(ended.reply)
    if call.turns.answered is not None:
        call.turns.answered.cut_at = ended.heard
    await call.close_turn(Outcome.BARGED_IN, ended)
    await call.talk_about(AgentDone())
    call.warm_prompt("")


async def take_back(call: "Call") -> None:
    """Drop the prepared reply as if it had never been."""
    if (dropped := await call.answering.drop()) is not None:
        call.observer.taken_back(dropped, call.leg.kind)
