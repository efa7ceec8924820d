"""A call's notices as OpenAI Realtime (GA) server events, in the order that clients rely on.

Own events beside OpenAI's: `halfsecond.transcript` (the caller's words so far, revised as they
come), `halfsecond.heard` (what the caller heard of a reply that was cut off) and `halfsecond.turn`
(a turn's stage times).
"""

from collections import OrderedDict
from typing import Any, assert_never

from budget.ids import new_id
from transport.leg import (
    Called,
    CallerHeard,
    CallerStarted,
    CallerStopped,
    CallTrouble,
    MessageAdded,
    MessageDeleted,
    Notice,
    ReplyCut,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    SessionChanged,
    TurnMeasured,
)
from transport.realtime_audio import FORMATS
from transport.requests import SessionOptions

Json = dict[str, Any]
_KEPT_ITEMS = 400


class Narrator:
    """What the client has been told so far."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._session_id = new_id("sess")
        self._created = False
        self.input_format = "audio/pcm"
        self.output_format = "audio/pcm"
        self._items: OrderedDict[str, Json] = OrderedDict()
        self._reply: ReplyStarted | None = None
        self._told: dict[str, int] = {}

    def event(self, kind: str, **fields: Any) -> Json:
        """A server event with an id of its own."""
        return {"type": kind, "event_id": new_id("event"), **fields}

    def error(self, code: str, message: str, *, param: str | None = None, cause: str | None = None) -> Json:
        """The protocol's error event; `cause` is the client's event_id."""
        kind = "server_error" if code in ("engine_failed", "internal_error") else "invalid_request_error"
        detail = {"type": kind, "code": code, "message": message, "param": param, "event_id": cause}
        return self.event("error", error=detail)

    def retrieved(self, item_id: str) -> Json:
        """The answer to `conversation.item.retrieve`."""
        item = self._items.get(item_id)
        if item is None:
            return self.error("item_not_found", f"there is no item {item_id!r} in this conversation", param="item_id")
        return self.event("conversation.item.retrieved", item=item)

    def audio_delta(self, audio: str) -> Json:
        """Agent audio of the reply in progress, base64."""
        return self.event("response.output_audio.delta", **self._where(), delta=audio)

    def tell(self, notice: Notice) -> list[Json]:
        """The events for a notice."""
        match notice:
            case SessionChanged(options):
                kind = "session.updated" if self._created else "session.created"
                self._created = True
                return [self.event(kind, session=self._session(options))]
            case CallerStarted(item_id, at):
                return [
                    self.event("input_audio_buffer.speech_started", item_id=item_id, audio_start_ms=round(at * 1000))
                ]
            case CallerStopped(item_id, at):
                return [self.event("input_audio_buffer.speech_stopped", item_id=item_id, audio_end_ms=round(at * 1000))]
            case CallerHeard():
                return self._transcript(notice)
            case MessageAdded():
                return self._added(notice)
            case MessageDeleted(item_id):
                self._items.pop(item_id, None)
                return [self.event("conversation.item.deleted", item_id=item_id)]
            case ReplyStarted():
                return self._started(notice)
            case ReplyText(text=text):
                kind = "output_audio_transcript" if self._reply and self._reply.audio else "output_text"
                return [self.event(f"response.{kind}.delta", **self._where(), delta=text)]
            case ReplyCut(item_id, heard, text):
                cut = self.event(
                    "conversation.item.truncated", item_id=item_id, content_index=0, audio_end_ms=round(heard * 1000)
                )
                return [cut, self.event("halfsecond.heard", item_id=item_id, heard_s=round(heard, 3), text=text)]
            case ReplyEnded():
                return self._ended(notice)
            case TurnMeasured(record):
                return [self.event("halfsecond.turn", **record)]
            case CallTrouble(code, message):
                return [self.error(code, message)]
            case _:
                assert_never(notice)

    # ---- the caller ----------------------------------------------------------------------------

    def _transcript(self, heard: CallerHeard) -> list[Json]:
        own = self.event(
            "halfsecond.transcript",
            item_id=heard.item_id,
            text=heard.text,
            committed=heard.committed,
            final=heard.final,
        )
        kind = "conversation.item.input_audio_transcription"
        told = self._told.get(heard.item_id, 0)
        events = [own]
        settled = heard.text[told : heard.committed]
        if settled:
            self._told = {heard.item_id: heard.committed}
            events.append(self.event(f"{kind}.delta", item_id=heard.item_id, content_index=0, delta=settled))
        if heard.final and heard.text:
            usage = {"type": "duration", "seconds": round(heard.seconds, 3)}
            completed = {"item_id": heard.item_id, "content_index": 0, "transcript": heard.text, "usage": usage}
            events.append(self.event(f"{kind}.completed", **completed))
        return events

    def _added(self, message: MessageAdded) -> list[Json]:
        if self._reply is not None and message.item_id == self._reply.item_id:
            return []
        part: Json
        if message.spoken:
            part = {"type": "input_audio", "transcript": message.text}
        else:
            part = {"type": "output_text" if message.role == "assistant" else "input_text", "text": message.text}
        before = next(reversed(self._items), None)
        if message.call_id:
            result = {"call_id": message.call_id, "output": message.text}
            item = self._keep(message.item_id, "completed", type="function_call_output", **result)
        else:
            item = self._remember(message.item_id, message.role, [part], "completed")
        events = [
            self.event("conversation.item.added", previous_item_id=before, item=item),
            self.event("conversation.item.done", previous_item_id=before, item=item),
        ]
        if message.spoken:
            committed = {"item_id": message.item_id, "previous_item_id": before}
            events.insert(0, self.event("input_audio_buffer.committed", **committed))
        return events

    # ---- the agent -----------------------------------------------------------------------------

    def _where(self) -> Json:
        reply = self._reply
        return {
            "response_id": reply.reply_id if reply else "",
            "item_id": reply.item_id if reply else "",
            "output_index": 0,
            "content_index": 0,
        }

    def _started(self, reply: ReplyStarted) -> list[Json]:
        before = next(reversed(self._items), None)
        self._reply = reply
        item = self._remember(reply.item_id, "assistant", [], "in_progress")
        output = {"response_id": reply.reply_id, "output_index": 0, "item": item}
        return [
            self.event("response.created", response=self._response(reply, "in_progress", [])),
            self.event("response.output_item.added", **output),
            self.event("conversation.item.added", previous_item_id=before, item=item),
            self.event("response.content_part.added", **self._where(), part=self._part("")),
        ]

    def _ended(self, ended: ReplyEnded) -> list[Json]:
        reply = self._reply
        if reply is None or reply.reply_id != ended.reply_id:
            return []
        where, part = self._where(), self._part(ended.text)
        status = "completed" if ended.outcome == "completed" else "incomplete"
        kind = "output_audio" if reply.audio else "output_text"
        content = {"type": kind, ("transcript" if reply.audio else "text"): ended.text}
        item = self._remember(reply.item_id, "assistant", [content], status)
        done: list[Json] = []
        if reply.audio:
            done = [
                self.event("response.output_audio.done", **where),
                self.event("response.output_audio_transcript.done", **where, transcript=ended.text),
            ]
        else:
            done = [self.event("response.output_text.done", **where, text=ended.text)]
        done += [
            self.event("response.content_part.done", **where, part=part),
            self.event("response.output_item.done", response_id=reply.reply_id, output_index=0, item=item),
            self.event("conversation.item.done", previous_item_id=None, item=item),
        ]
        output = [item]
        for number, call in enumerate(ended.calls, start=1):
            done += self._called(reply, number, call)
            output.append(self._items[call.call_id])
        done.append(self.event("response.done", response=self._response(reply, ended.outcome, output, ended)))
        self._reply = None
        return done

    def _called(self, reply: ReplyStarted, number: int, call: Called) -> list[Json]:
        """The model calls a function of the client's: an item of its own, which the client answers by `call_id`."""
        told = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
        before = next(reversed(self._items), None)
        item = self._keep(call.call_id, "completed", type="function_call", **told)
        where = {"response_id": reply.reply_id, "output_index": number}
        named = {"item_id": call.call_id, "call_id": call.call_id}
        return [
            self.event("response.output_item.added", **where, item={**item, "status": "in_progress", "arguments": ""}),
            self.event("conversation.item.added", previous_item_id=before, item=item),
            self.event("response.function_call_arguments.delta", **where, **named, delta=call.arguments),
            self.event("response.function_call_arguments.done", **where, item_id=call.call_id, **told),
            self.event("response.output_item.done", **where, item=item),
            self.event("conversation.item.done", previous_item_id=before, item=item),
        ]

    def _part(self, text: str) -> Json:
        if self._reply is not None and self._reply.audio:
            return {"type": "audio", "transcript": text}
        return {"type": "text", "text": text}

    def _response(self, reply: ReplyStarted, status: str, output: list[Json], ended: ReplyEnded | None = None) -> Json:
        details: Json | None = None
        if ended is not None and ended.outcome == "cancelled":
            details = {"type": "cancelled", "reason": ended.reason}
        elif ended is not None and ended.outcome == "failed":
            details = {"type": "failed", "error": {"type": "server_error", "code": ended.reason}}
        usage = {"total_tokens": ended.tokens, "input_tokens": 0, "output_tokens": ended.tokens} if ended else None
        return {
            "object": "realtime.response",
            "id": reply.reply_id,
            "status": status,
            "status_details": details,
            "output": output,
            "output_modalities": ["audio" if reply.audio else "text"],
            "usage": usage,
        }

    def _remember(self, item_id: str, role: str, content: list[Json], status: str) -> Json:
        return self._keep(item_id, status, type="message", role=role, content=content)

    def _keep(self, item_id: str, status: str, **fields: Any) -> Json:
        item = {"id": item_id, "object": "realtime.item", "status": status, **fields}
        self._items[item_id] = item
        while len(self._items) > _KEPT_ITEMS:
            self._items.popitem(last=False)
        return item

    def _session(self, options: SessionOptions) -> Json:
        detection = options.turn_detection
        vad = None
        if detection is not None and detection.automatic:
            how: Json = {"type": "semantic_vad", "eagerness": detection.eagerness}
            if detection.silence is not None:
                how = {"type": "server_vad", "silence_duration_ms": round(detection.silence * 1000)}
            vad = {
                **how,
                "create_response": detection.answer,
                "interrupt_response": detection.interrupt,
            }
        return {
            "type": "realtime",
            "object": "realtime.session",
            "id": self._session_id,
            "model": self._model,
            "output_modalities": ["audio" if options.audio else "text"],
            "instructions": options.instructions,
            "temperature": options.temperature,
            "max_output_tokens": options.max_tokens,
            "audio": {
                "input": {
                    "format": _format(self.input_format),
                    "transcription": {"model": "whisper", "language": options.language},
                    "turn_detection": vad,
                },
                "output": {
                    "format": _format(self.output_format),
                    "voice": options.voice or "default",
                    "speed": options.speed,
                },
            },
            "tools": [
                {"type": "function", "name": t.name, "description": t.description, "parameters": dict(t.parameters)}
                for t in options.tools or ()
            ],
            "tool_choice": "auto",
            "halfsecond": {"greeting": options.greeting},
        }


def _format(name: str) -> Json:
    """A format as OpenAI writes it: only PCM names its rate."""
    return {"type": name, "rate": FORMATS[name]} if name == "audio/pcm" else {"type": name}
