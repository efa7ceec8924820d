"""OpenAI Realtime (GA) client events as they come over the wire, checked and bounded.

Field names and meanings are OpenAI's; fields that this service has no use for (tracing,
...) are accepted and ignored. `session.halfsecond` is this service's own: {"greeting": text or true}.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from budget.errors import PeerError

MOST_TEXT = 32_000
"""Characters in one text field."""


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class AudioFormat(_Wire):
    """`audio/pcm` is 24 kHz 16-bit; the others are G.711 at 8 kHz."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: Literal[24000, 8000] | None = None


class ServerVad(_Wire):
    """Who ends a turn: the service by meaning, or by silence where `silence_duration_ms` is given."""

    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    silence_duration_ms: Annotated[int, Field(ge=100, le=5000)] | None = None
    eagerness: Literal["low", "medium", "high", "auto"] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None


class Transcription(_Wire):
    """What language callers speak."""

    language: Annotated[str, Field(max_length=12)] | None = None


class AudioInput(_Wire):
    """Sound from the client."""

    format: AudioFormat | None = None
    transcription: Transcription | None = None
    turn_detection: ServerVad | None = None


class AudioOutput(_Wire):
    """Sound to the client."""

    format: AudioFormat | None = None
    voice: Annotated[str, Field(max_length=100)] | dict[str, Any] | None = None
    speed: Annotated[float, Field(ge=0.25, le=4.0)] | None = None


class Audio(_Wire):
    """Both directions."""

    input: AudioInput | None = None
    output: AudioOutput | None = None


class Extension(_Wire):
    """This service's own session fields."""

    greeting: Annotated[str, Field(max_length=500)] | bool | None = None


class FunctionTool(_Wire):
    """A function that the client offers to the model."""

    type: Literal["function"] = "function"
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: Annotated[str, Field(max_length=2_000)] = ""
    parameters: dict[str, Any] = {}


class Session(_Wire):
    """A session as the client wishes it; what is not set stays as it is."""

    type: Literal["realtime"] = "realtime"
    instructions: Annotated[str, Field(max_length=MOST_TEXT)] | None = None
    output_modalities: list[Literal["audio", "text"]] | None = None
    audio: Audio | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=4096)] | Literal["inf"] | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=32)] | None = None
    halfsecond: Extension | None = None


class Content(_Wire):
    """One part of a message; only text parts are understood."""

    type: str
    text: Annotated[str, Field(max_length=MOST_TEXT)] | None = None


class Item(_Wire):
    """A message to put into the conversation, or the result of a function (`function_call_output`)."""

    type: str = "message"
    id: Annotated[str, Field(max_length=64)] | None = None
    role: Literal["system", "user", "assistant"] = "user"
    content: Annotated[list[Content], Field(max_length=32)] = []
    call_id: Annotated[str, Field(max_length=64)] = ""
    output: Annotated[str, Field(max_length=MOST_TEXT)] = ""


class ResponseParams(_Wire):
    """Options for one reply."""

    instructions: Annotated[str, Field(max_length=MOST_TEXT)] | None = None
    output_modalities: list[Literal["audio", "text"]] | None = None
    audio: Audio | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=4096)] | Literal["inf"] | None = None


class _Event(_Wire):
    event_id: Annotated[str, Field(max_length=512)] | None = None


class SessionUpdate(_Event):
    """`session.update`."""

    type: Literal["session.update"]
    session: Session


class AudioAppend(_Event):
    """`input_audio_buffer.append`: base64 in the session's input format."""

    type: Literal["input_audio_buffer.append"]
    audio: str


class AudioCommit(_Event):
    """`input_audio_buffer.commit`."""

    type: Literal["input_audio_buffer.commit"]


class AudioClear(_Event):
    """`input_audio_buffer.clear`."""

    type: Literal["input_audio_buffer.clear"]


class ItemCreate(_Event):
    """`conversation.item.create`."""

    type: Literal["conversation.item.create"]
    item: Item


class ItemDelete(_Event):
    """`conversation.item.delete`."""

    type: Literal["conversation.item.delete"]
    item_id: Annotated[str, Field(max_length=64)]


class ItemRetrieve(_Event):
    """`conversation.item.retrieve`."""

    type: Literal["conversation.item.retrieve"]
    item_id: Annotated[str, Field(max_length=64)]


class ItemTruncate(_Event):
    """`conversation.item.truncate`: the client played only so much."""

    type: Literal["conversation.item.truncate"]
    item_id: Annotated[str, Field(max_length=64)]
    content_index: int = 0
    audio_end_ms: Annotated[int, Field(ge=0, le=86_400_000)]


class ResponseCreate(_Event):
    """`response.create`."""

    type: Literal["response.create"]
    response: ResponseParams | None = None


class ResponseCancel(_Event):
    """`response.cancel`."""

    type: Literal["response.cancel"]


class OutputClear(_Event):
    """`output_audio_buffer.clear` (WebRTC): drop what has not been played."""

    type: Literal["output_audio_buffer.clear"]


ClientEvent = Annotated[
    SessionUpdate
    | AudioAppend
    | AudioCommit
    | AudioClear
    | ItemCreate
    | ItemDelete
    | ItemRetrieve
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
    | OutputClear,
    Field(discriminator="type"),
]
_CLIENT_EVENT: TypeAdapter[ClientEvent] = TypeAdapter(ClientEvent)
_SESSION: TypeAdapter[Session] = TypeAdapter(Session)


def parse_event(text: str | bytes) -> ClientEvent:
    """One client event from its JSON. Raises `PeerError` with OpenAI's codes."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PeerError("invalid_json", "the message is not JSON") from error
    if not isinstance(data, dict):
        raise PeerError("invalid_json", "an event is a JSON object")
    try:
        return _CLIENT_EVENT.validate_python(data)
    except ValidationError as error:
        raise _peer_error(error, str(data.get("type", ""))[:80]) from error


def parse_session(data: object) -> Session:
    """A session object sent with a WebRTC offer. Raises `PeerError`."""
    try:
        return _SESSION.validate_python(data)
    except ValidationError as error:
        raise _peer_error(error, "session") from error


def _peer_error(error: ValidationError, kind: str) -> PeerError:
    first = error.errors(include_input=False, include_url=False)[0]
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return PeerError(
            "unknown_event" if kind else "missing_required_parameter", f"unknown event type {kind!r}", param="type"
        )
    path = ".".join(str(part) for part in first["loc"] if part != kind)
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
    return PeerError(code, f"{path}: {first['msg']}", param=path)
