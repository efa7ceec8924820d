"""Twilio Media Streams by recorded messages, without a socket."""

import base64
import contextlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.errors import PeerError
from transport import g711
from transport.frame import AudioFrame
from transport.requests import HangUp
from transport.twilio import MediaStream

START = {
    "event": "start",
    "sequenceNumber": "1",
    "start": {
        "accountSid": "AC00000000000000000000000000000000",
        "streamSid": "MZ00000000000000000000000000000000",
        "callSid": "CA00000000000000000000000000000000",
        "tracks": ["inbound"],
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        "customParameters": {"api_key": "k"},
    },
    "streamSid": "MZ00000000000000000000000000000000",
}
"""As in Twilio's documentation of its WebSocket messages."""


def media(pcm: np.ndarray, track: str = "inbound") -> str:
    payload = base64.b64encode(g711.encode(pcm)).decode()
    return json.dumps(
        {
            "event": "media",
            "sequenceNumber": "3",
            "media": {"track": track, "chunk": "1", "timestamp": "5", "payload": payload},
        }
    )


def stream() -> MediaStream:
    made = MediaStream()
    made.receive(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
    made.receive(json.dumps(START))
    return made


def mark(name: str) -> str:
    return json.dumps({"event": "mark", "sequenceNumber": "4", "streamSid": "MZ", "mark": {"name": name}})


def test_a_stream_starts_with_its_ids_and_parameters() -> None:
    started = stream().started
    assert started is not None
    assert started.stream.startswith("MZ")
    assert started.parameters == {"api_key": "k"}


def test_twenty_milliseconds_of_mu_law_become_frames_at_16_khz() -> None:
    made, frames = stream(), []
    for _ in range(50):
        frames += made.receive(media(np.zeros(160, np.float32)))
    assert 48 <= len(frames) <= 50
    assert all(isinstance(frame, AudioFrame) and frame.pcm.shape == (320,) for frame in frames)


def test_the_agents_own_track_is_not_heard_back() -> None:
    assert stream().receive(media(np.zeros(160, np.float32), "outbound")) == []


def test_stop_hangs_up() -> None:
    assert stream().receive(json.dumps({"event": "stop", "stop": {}})) == [HangUp("caller hung up")]


def test_audio_goes_out_with_marks_that_tell_what_was_played() -> None:
    made = stream()
    messages = [message for _ in range(100) for message in made.play(np.zeros(160, np.float32))]
    marks = [message["mark"]["name"] for message in messages if message["event"] == "mark"]
    assert len(marks) == 4
    assert all(len(base64.b64decode(m["media"]["payload"])) == 160 for m in messages if m["event"] == "media")
    assert made.unplayed() == 0.0, "a peer without marks is believed to play in real time"
    made.receive(mark(marks[0]))
    assert made.unplayed() == pytest.approx(0.75), "the second mark, due at 1.0 s of 2.0, is not back"
    for name in marks[1:]:
        made.receive(mark(name))
    assert made.unplayed() == 0.0


def test_marks_that_come_back_because_of_clear_do_not_count_as_heard() -> None:
    made = stream()
    names = [m["mark"]["name"] for _ in range(50) for m in made.play(np.zeros(160, np.float32)) if m["event"] == "mark"]
    assert made.clear()[0]["event"] == "clear"
    for name in names:
        made.receive(mark(name))
    later = [m["mark"]["name"] for _ in range(50) for m in made.play(np.zeros(160, np.float32)) if m["event"] == "mark"]
    assert made.unplayed() == 0.0
    made.receive(mark(later[0]))
    assert made.unplayed() >= 0.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        '{"event": 5}',
        '{"event": "nonsense"}',
        '{"event": "media"}',
        '{"event": "media", "media": {"payload": "***"}}',
        '{"event": "media", "media": null}',
        '{"event": "mark", "mark": {}}',
        '{"event": "start", "start": {}}',
        json.dumps(
            {**START, "start": {**START["start"], "mediaFormat": {"encoding": "audio/l16", "sampleRate": 16000}}}
        ),
    ],
)
def test_broken_messages_are_refused_one_by_one(text: str) -> None:
    with pytest.raises(PeerError):
        stream().receive(text)


@given(st.text(max_size=100) | st.binary(max_size=100))
def test_no_bytes_break_the_stream(data: str | bytes) -> None:
    with contextlib.suppress(PeerError):
        stream().receive(data)
