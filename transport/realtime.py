"""The OpenAI Realtime protocol of one call, without a socket: client events in, server events out.

Both shells (WebSocket, WebRTC data channel) feed it; it keeps the audio formats, the order of the
conversation and the reply in progress, and decides nothing.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any, assert_never

from budget.errors import PeerError
from budget.ids import new_id
from transport.frame import AudioFrame, Framer, Pcm
from transport.leg import CallTrouble, Notice
from transport.realtime_audio import FORMATS, decode_audio, encode_audio
from transport.realtime_events import (
    AudioAppend,
    AudioClear,
    AudioCommit,
    FunctionTool,
    Item,
    ItemCreate,
    ItemDelete,
    ItemRetrieve,
    ItemTruncate,
    OutputClear,
    ResponseCancel,
    ResponseCreate,
    ResponseParams,
    Session,
    SessionUpdate,
    parse_event,
)
from transport.realtime_notices import Narrator
from transport.requests import (
    AddMessage,
    AddToolResult,
    CancelReply,
    ChangeSession,
    ClearAudio,
    CommitAudio,
    CreateReply,
    DeleteMessage,
    FromClient,
    Request,
    SessionOptions,
    Tool,
    TruncateReply,
    TurnDetection,
)
from transport.resample import Resampler

Json = dict[str, Any]


@dataclass(frozen=True)
class Received:
    """What one client message means: entries for the call, and events to answer at once."""

    entries: tuple[FromClient, ...] = ()
    events: tuple[Json, ...] = ()


class RealtimeSession:
    """One client's protocol state."""

    def __init__(self, model: str) -> None:
        self.narrator = Narrator(model)
        self._framer = Framer()
        self._resampler = Resampler(FORMATS[self.narrator.input_format], 16_000)

    @property
    def output_rate(self) -> int:
        """Hz of the audio that `audio` takes."""
        return FORMATS[self.narrator.output_format]

    def receive(self, text: str | bytes) -> Received:
        """Take one message. What is wrong with it is answered by an error event, never raised."""
        event_id: str | None = None
        try:
            event = parse_event(text)
            event_id = event.event_id
            match event:
                case AudioAppend(audio=audio):
                    return Received(tuple(self.frames(audio)))
                case SessionUpdate(session=session):
                    return Received(tuple(self.change(session)))
                case ItemRetrieve(item_id=item_id):
                    return Received(events=(self.narrator.retrieved(item_id),))
                case AudioClear():
                    return Received((ClearAudio(),), (self.narrator.event("input_audio_buffer.cleared"),))
                case _:
                    return Received((self._request(event),))
        except PeerError as error:
            return Received(events=(self.narrator.error(error.code, str(error), param=error.param, cause=event_id),))

    def frames(self, audio: str) -> list[AudioFrame]:
        """Base64 audio in the input format as frames. Raises `PeerError`."""
        try:
            data = base64.b64decode(audio, validate=True)
        except (binascii.Error, ValueError) as error:
            raise PeerError("invalid_value", "audio is not base64", param="audio") from error
        if self.narrator.input_format == "audio/pcm" and len(data) % 2:
            raise PeerError("invalid_value", "audio/pcm needs an even number of bytes: 16-bit samples", param="audio")
        return self._framer.push(self._resampler.push(decode_audio(data, self.narrator.input_format)))

    def change(self, session: Session) -> list[Request]:
        """Apply what is the protocol's own in a session, pass on the rest."""
        audio = session.audio
        if audio and audio.input and audio.input.format:
            self.narrator.input_format = audio.input.format.type
            self._resampler = Resampler(FORMATS[self.narrator.input_format], 16_000)
        if audio and audio.output and audio.output.format:
            self.narrator.output_format = audio.output.format.type
        greeting = session.halfsecond.greeting if session.halfsecond else None
        return [ChangeSession(_options(session, greeting), greet=greeting not in (None, False, ""))]

    def send(self, notice: Notice) -> list[Json]:
        """The server events for a notice of the call."""
        return self.narrator.tell(notice)

    def audio(self, pcm: Pcm) -> Json:
        """The server event that carries agent audio (at `output_rate`)."""
        data = encode_audio(pcm, self.narrator.output_format)
        return self.narrator.audio_delta(base64.b64encode(data).decode())

    def trouble(self, code: str, message: str) -> list[Json]:
        """The error event for something that the shell found wrong."""
        return self.narrator.tell(CallTrouble(code, message))

    def _request(
        self,
        event: AudioCommit | ItemCreate | ItemDelete | ItemTruncate | ResponseCreate | ResponseCancel | OutputClear,
    ) -> Request:
        match event:
            case AudioCommit():
                return CommitAudio()
            case ItemCreate(item=item):
                return _message(item)
            case ItemDelete(item_id=item_id):
                return DeleteMessage(item_id)
            case ItemTruncate(item_id=item_id, audio_end_ms=end):
                return TruncateReply(item_id, end / 1000)
            case ResponseCreate(response=response):
                return CreateReply(_reply_options(response or ResponseParams()))
            case ResponseCancel():
                return CancelReply(flush=True)
            case OutputClear():
                return CancelReply(flush=True)
            case _:
                assert_never(event)


def _options(session: Session, greeting: str | bool | None) -> SessionOptions:
    audio = session.audio
    source = audio.input if audio else None
    given = audio.model_fields_set if audio else set()
    detection: TurnDetection | None = None
    if source and "input" in given and "turn_detection" in source.model_fields_set:
        vad = source.turn_detection
        detection = (
            TurnDetection(automatic=False, answer=False)
            if vad is None
            else TurnDetection(
                answer=vad.create_response is not False,
                interrupt=vad.interrupt_response is not False,
                silence=vad.silence_duration_ms / 1000 if vad.silence_duration_ms else None,
                eagerness="medium" if vad.eagerness is None or vad.eagerness == "auto" else vad.eagerness,
            )
        )
    language = source.transcription.language if source and source.transcription else None
    common = _reply_options(ResponseParams.model_validate(session.model_dump(exclude_unset=True)))
    return SessionOptions(
        instructions=common.instructions,
        greeting=greeting if isinstance(greeting, str) else None,
        language=language,
        voice=common.voice,
        speed=common.speed,
        temperature=session.temperature,
        max_tokens=common.max_tokens,
        audio=common.audio,
        turn_detection=detection,
        tools=None if session.tools is None else tuple(map(_tool, session.tools)),
    )


def _tool(tool: FunctionTool) -> Tool:
    return Tool(tool.name, tool.description, tool.parameters or {"type": "object", "properties": {}})


def _reply_options(params: ResponseParams) -> SessionOptions:
    output = params.audio.output if params.audio else None
    voice = output.voice if output else None
    if isinstance(voice, dict):
        voice = str(voice.get("id", ""))
    tokens = params.max_output_tokens
    return SessionOptions(
        instructions=params.instructions,
        voice=voice,
        speed=output.speed if output else None,
        max_tokens=tokens if isinstance(tokens, int) else None,
        audio=None if params.output_modalities is None else "audio" in params.output_modalities,
    )


def _message(item: Item) -> AddMessage | AddToolResult:
    if item.type == "function_call_output":
        return AddToolResult(item.id or new_id("item"), item.call_id, item.output)
    if item.type != "message":
        raise PeerError("invalid_value", f"items of type {item.type!r} are not supported", param="item.type")
    texts = [part.text for part in item.content if part.text and part.type in ("input_text", "output_text", "text")]
    if not texts:
        raise PeerError(
            "invalid_value", "the item has no text; send audio with input_audio_buffer.append", param="item.content"
        )
    return AddMessage(item.id or new_id("item"), item.role, "\n".join(texts))
