"""What a client may ask of its call, carried out on the call's loop."""

from typing import TYPE_CHECKING, assert_never

from budget.errors import PeerError
from transport.leg import CallTrouble, MessageAdded, MessageDeleted, ReplyCut, SessionChanged
from transport.requests import (
    Act,
    AddMessage,
    AddToolResult,
    CancelReply,
    ChangeSession,
    ClearAudio,
    CommitAudio,
    CreateReply,
    DeleteMessage,
    HangUp,
    Hold,
    PressKey,
    Request,
    SessionOptions,
    TruncateReply,
)
from voice.dialogue import Entry
from voice.keypad import press
from voice.session import check
from voice.speaking import begin_reply, greet, stop_agent
from voice.turn_taking import Agent, CallerFellSilent, CallerSpoke, TurnOver

if TYPE_CHECKING:
    from voice.call import Call


async def apply_request(call: "Call", request: Request) -> None:
    """Carry out one request; what can't be done is told to the client and changes nothing."""
    try:
        match request:
            case ChangeSession(options, greets):
                _check(call, options)
                call.adopt(call.settings.changed(options))
                await call.leg.notify(SessionChanged(call.settings.options()))
                if greets and not call.dialogue.entries() and call.talk.agent is Agent.SILENT:
                    await greet(call)
            case AddMessage(item_id, role, text):
                call.dialogue.add(Entry(item_id, role, text))
                await call.leg.notify(MessageAdded(item_id, role, text))
            case AddToolResult():
                await _tool_result(call, request)
            case DeleteMessage(item_id):
                await _delete(call, item_id)
            case CreateReply():
                await _create_reply(call, request)
            case CancelReply(flush):
                if call.answering.reply is None:
                    raise PeerError("response_cancel_not_active", "there is no reply in progress to cancel")
                await stop_agent(call, "client_cancelled", flush=flush)
            case TruncateReply():
                await _truncate(call, request)
            case CommitAudio():
                await _commit_audio(call)
            case ClearAudio():
                call.hearing.close()
            case PressKey(key):
                await press(call, key)
            case Hold(held):
                call.held = held
                await stop_agent(call, "held")
            case HangUp() | Act():
                pass  # the loop takes these before it asks here
            case _:
                assert_never(request)
    except PeerError as error:
        await call.leg.notify(CallTrouble(error.code, str(error)))


def _check(call: "Call", options: SessionOptions) -> None:
    check(options, languages=call.engines.languages, voices=call.engines.synthesizer.voices())


async def _tool_result(call: "Call", result: AddToolResult) -> None:
    called = next((e.call for e in call.dialogue.entries() if e.call and e.call.call_id == result.call_id), None)
    if called is None:
        raise PeerError("item_not_found", f"no function was called as {result.call_id!r}", param="item.call_id")
    call.dialogue.add(Entry(result.item_id, "tool", result.output, call=called))
    await call.leg.notify(MessageAdded(result.item_id, "tool", result.output, call_id=result.call_id))


async def _delete(call: "Call", item_id: str) -> None:
    if not call.dialogue.remove(item_id):
        raise PeerError("item_not_found", f"there is no item {item_id!r} in this conversation")
    await call.leg.notify(MessageDeleted(item_id))


async def _create_reply(call: "Call", request: CreateReply) -> None:
    if call.talk.agent is not Agent.SILENT:
        raise PeerError(
            "conversation_already_has_active_response", "a reply is in progress; cancel it or wait for its end"
        )
    _check(call, request.options)
    await begin_reply(call, call.settings.changed(request.options))


async def _truncate(call: "Call", request: TruncateReply) -> None:
    reply = call.answering.reply
    if reply is not None and reply.item_id == request.item_id:
        await stop_agent(call, "client_cancelled", heard=request.heard)
        return
    text = call.dialogue.truncate(request.item_id, request.heard)
    if text is None:
        raise PeerError("item_not_found", f"there is no reply {request.item_id!r} to truncate")
    await call.leg.notify(ReplyCut(request.item_id, request.heard, text))


async def _commit_audio(call: "Call") -> None:
    """The caller's turn is over, whatever the voice activity says."""
    for event in (CallerSpoke(call.hearing.began), CallerFellSilent(call.hearing.now), TurnOver()):
        await call.talk_about(event)
