"""The Realtime protocol without a socket; OpenAI's own types are the schema."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from llm.chat import ToolCall
from transport.frame import AudioFrame
from transport.leg import (
    CallerHeard,
    CallerStarted,
    CallerStopped,
    CallTrouble,
    MessageAdded,
    MessageDeleted,
    ReplyCut,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    SessionChanged,
    TurnMeasured,
)
from transport.realtime import RealtimeSession
from transport.requests import (
    AddMessage,
    CancelReply,
    ChangeSession,
    ClearAudio,
    CommitAudio,
    CreateReply,
    DeleteMessage,
    SessionOptions,
    Tool,
    TruncateReply,
    TurnDetection,
)

SERVER_EVENT = TypeAdapter(RealtimeServerEvent)
OPTIONS = SessionOptions("Be brief.", "", "en", "", 1.0, 0.3, 120, True, TurnDetection())


def session() -> RealtimeSession:
    return RealtimeSession("test-model")


def send(protocol: RealtimeSession, **event: object) -> object:
    return protocol.receive(json.dumps(event))


def error_code(received: object) -> str:
    assert not received.entries
    assert received.events[0]["type"] == "error"
    return received.events[0]["error"]["code"]


@pytest.mark.parametrize(
    ("event", "entry"),
    [
        ({"type": "input_audio_buffer.commit"}, CommitAudio()),
        ({"type": "input_audio_buffer.clear"}, ClearAudio()),
        ({"type": "response.create"}, CreateReply()),
        ({"type": "response.cancel"}, CancelReply()),
        ({"type": "conversation.item.delete", "item_id": "a"}, DeleteMessage("a")),
        (
            {"type": "conversation.item.truncate", "item_id": "a", "content_index": 0, "audio_end_ms": 1500},
            TruncateReply("a", 1.5),
        ),
        (
            {"type": "response.create", "response": {"output_modalities": ["text"], "max_output_tokens": 5}},
            CreateReply(SessionOptions(audio=False, max_tokens=5)),
        ),
        (
            {
                "type": "conversation.item.create",
                "item": {
                    "id": "m",
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "Hi"}],
                },
            },
            AddMessage("m", "user", "Hi"),
        ),
    ],
)
def test_client_events_become_requests(event: dict, entry: object) -> None:
    assert send(session(), **event).entries == (entry,)


def test_a_session_update_sets_what_it_names_and_nothing_else() -> None:
    audio = {
        "input": {
            "transcription": {"language": "zh"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 700},
        },
        "output": {"voice": "zf_xiaobei", "speed": 1.2},
    }
    received = send(session(), type="session.update", session={"type": "realtime", "audio": audio})
    assert received.entries == (
        ChangeSession(
            SessionOptions(language="zh", voice="zf_xiaobei", speed=1.2, turn_detection=TurnDetection(silence=0.7))
        ),
    )
    manual = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
    received = send(session(), type="session.update", session=manual)
    assert received.entries[0].options.turn_detection == TurnDetection(automatic=False, answer=False)


def test_audio_is_resampled_and_cut_to_frames_across_messages() -> None:
    protocol, count = session(), 0
    for _ in range(10):
        data = base64.b64encode(np.zeros(2400, "<i2").tobytes()).decode()
        frames = send(protocol, type="input_audio_buffer.append", audio=data).entries
        assert all(isinstance(frame, AudioFrame) for frame in frames)
        count += len(frames)
    assert 48 <= count <= 50


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "invalid_json"),
        ("[" * 100_000, "invalid_json"),
        ('{"type": "no.such.event"}', "unknown_event"),
        ("{}", "missing_required_parameter"),
        ('{"type": "input_audio_buffer.append", "audio": "***"}', "invalid_value"),
        ('{"type": "input_audio_buffer.append", "audio": "AAA="}', None),
        ('{"type": "input_audio_buffer.append"}', "missing_required_parameter"),
        (
            json.dumps(
                {
                    "type": "session.update",
                    "session": {"type": "realtime", "audio": {"input": {"format": {"type": "mp3"}}}},
                }
            ),
            "invalid_value",
        ),
        ('{"type": "conversation.item.create", "item": {"type": "function_call"}}', "invalid_value"),
        ('{"type": "conversation.item.create", "item": {"type": "message", "content": []}}', "invalid_value"),
        ('{"type": "conversation.item.retrieve", "item_id": "x"}', "item_not_found"),
        ('{"type": "conversation.item.truncate", "item_id": "x", "audio_end_ms": -1}', "invalid_value"),
    ],
)
def test_what_is_wrong_gets_the_protocols_error(text: str, code: str | None) -> None:
    received = session().receive(text)
    if code is None:
        assert received.events == ()
    else:
        assert error_code(received) == code
        SERVER_EVENT.validate_python(received.events[0])


def test_an_odd_number_of_bytes_is_wrong_pcm() -> None:
    assert (
        error_code(send(session(), type="input_audio_buffer.append", audio=base64.b64encode(b"abc").decode()))
        == "invalid_value"
    )


def test_the_clients_event_id_comes_back_in_the_error() -> None:
    received = send(session(), type="conversation.item.create", event_id="e1", item={"type": "x"})
    assert received.events[0]["error"]["event_id"] == "e1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
TYPES = st.sampled_from(
    "session.update input_audio_buffer.append input_audio_buffer.commit conversation.item.create "
    "conversation.item.truncate conversation.item.delete response.create response.cancel "
    "output_audio_buffer.clear".split()
)


@given(
    TYPES, st.dictionaries(st.sampled_from(["session", "audio", "item", "item_id", "response", "audio_end_ms"]), JSON)
)
def test_no_message_breaks_the_protocol(kind: str, fields: dict) -> None:
    received = session().receive(json.dumps({"type": kind, **fields}))
    for event in received.events:
        SERVER_EVENT.validate_python(event)


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_no_bytes_break_the_protocol(data: bytes | str) -> None:
    session().receive(data)


def test_every_notice_becomes_events_of_openais_schema_in_order() -> None:
    protocol = session()
    notices = [
        SessionChanged(OPTIONS),
        CallerStarted("u1", 1.0),
        CallerHeard("u1", "turn on the", 7, final=False),
        CallerStopped("u1", 2.0),
        MessageAdded("u1", "user", "turn on the lamp", spoken=True),
        CallerHeard("u1", "turn on the lamp", 16, final=True, seconds=1.0),
        ReplyStarted("r1", "a1", audio=True),
        ReplyText("r1", "a1", "Sure, "),
        ReplyText("r1", "a1", "done."),
        ReplyCut("a1", 0.5, "Sure,"),
        MessageAdded("a1", "assistant", "Sure,", spoken=True),
        ReplyEnded("r1", "a1", "Sure, done.", "cancelled", "turn_detected"),
        TurnMeasured({"turn_id": "t1"}),
        MessageAdded("m1", "user", "typed"),
        MessageDeleted("m1"),
        ReplyStarted("r2", "a2", audio=False),
        ReplyText("r2", "a2", "Text."),
        ReplyEnded("r2", "a2", "Text.", "completed", audio=False),
        ReplyStarted("r3", "a3", audio=True),
        ReplyEnded("r3", "a3", "", "failed", "engine_failed"),
        CallTrouble("engine_failed", "broken"),
        SessionChanged(OPTIONS),
    ]
    events = [event for notice in notices for event in protocol.send(notice)]
    for event in events:
        if not event["type"].startswith("halfsecond."):
            SERVER_EVENT.validate_python(event)
    kinds = [event["type"] for event in events]
    assert kinds[0] == "session.created"
    assert kinds[-1] == "session.updated"
    first = kinds[kinds.index("response.created") : kinds.index("response.done") + 1]
    assert first == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio_transcript.delta",
        "conversation.item.truncated",
        "halfsecond.heard",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    deltas = [e["delta"] for e in events if e["type"] == "conversation.item.input_audio_transcription.delta"]
    assert "".join(deltas) == "turn on the lamp"
    assert len({event["event_id"] for event in events}) == len(events)


def test_agent_audio_is_in_the_sessions_output_format() -> None:
    protocol = session()
    protocol.send(ReplyStarted("r1", "a1", audio=True))
    assert protocol.output_rate == 24_000
    event = protocol.audio(np.full(480, 0.5, np.float32))
    SERVER_EVENT.validate_python(event)
    assert len(base64.b64decode(event["delta"])) == 960
    form = {"type": "realtime", "audio": {"output": {"format": {"type": "audio/pcmu"}}}}
    send(protocol, type="session.update", session=form)
    assert protocol.output_rate == 8_000
    assert len(base64.b64decode(protocol.audio(np.zeros(160, np.float32))["delta"])) == 160


WEATHER = {"type": "function", "name": "weather", "description": "The weather.", "parameters": {"type": "object"}}


def test_a_function_of_the_clients_is_offered_called_and_answered_as_openai_does() -> None:
    protocol = session()
    change = send(protocol, type="session.update", session={"type": "realtime", "tools": [WEATHER]}).entries[0]
    assert change.options.tools == (Tool("weather", "The weather.", {"type": "object"}),)
    call = ToolCall("call_1", "weather", '{"city": "Rome"}')
    notices = [
        SessionChanged(replace(OPTIONS, tools=change.options.tools)),
        ReplyStarted("r1", "a1", audio=True),
        ReplyText("r1", "a1", "Let me see."),
        ReplyEnded("r1", "a1", "Let me see.", "completed", calls=(call,)),
        MessageAdded("o1", "tool", "31 degrees", call_id="call_1"),
    ]
    events = [event for notice in notices for event in protocol.send(notice)]
    for event in events:
        SERVER_EVENT.validate_python(event)
    assert events[0]["session"]["tools"] == [WEATHER]
    done = next(e for e in events if e["type"] == "response.function_call_arguments.done")
    assert (done["call_id"], done["name"], done["arguments"]) == ("call_1", "weather", '{"city": "Rome"}')
    output = next(e for e in events if e["type"] == "response.done")["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call"]
    assert events[-1]["item"]["type"] == "function_call_output"
    result = {"type": "function_call_output", "call_id": "call_1", "output": "31 degrees"}
    entry = send(protocol, type="conversation.item.create", item=result).entries[0]
    assert (entry.call_id, entry.output) == ("call_1", "31 degrees")
