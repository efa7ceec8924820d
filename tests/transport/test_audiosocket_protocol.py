"""Asterisk's AudioSocket byte by byte, without a socket."""

import contextlib
import struct
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.errors import PeerError
from transport.audiosocket import AudioSocketStream
from transport.frame import AudioFrame
from transport.requests import HangUp, PressKey

CALL = UUID("40325ec2-5efd-4bd3-805f-53576e581d13")


def message(kind: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BH", kind, len(payload)) + payload


def named() -> AudioSocketStream:
    stream = AudioSocketStream()
    assert list(stream.receive(message(0x01, CALL.bytes))) == []
    return stream


def test_the_first_message_names_the_call() -> None:
    assert named().uuid == str(CALL)


@pytest.mark.parametrize(
    ("kind", "length", "rate"),
    [
        (0x10, 320, 8_000),
        (0x11, 480, 12_000),
        (0x11, 640, 16_000),
        (0x12, 640, 16_000),
        (0x13, 960, 24_000),
        (0x14, 1280, 32_000),
        (0x15, 1764, 44_100),
        (0x16, 1920, 48_000),
        (0x17, 3840, 96_000),
        (0x18, 7680, 192_000),
    ],
)
def test_every_rate_becomes_frames_at_16_khz_and_is_answered_at_its_own(kind: int, length: int, rate: int) -> None:
    stream, frames = named(), []
    for _ in range(50):
        frames += stream.receive(message(kind, bytes(length)))
    assert stream.rate == rate
    assert 48 <= len(frames) <= 50
    assert all(isinstance(frame, AudioFrame) and frame.pcm.shape == (320,) for frame in frames)
    assert stream.silence() == message(kind, bytes(length))
    assert stream.audio(np.zeros(rate // 50, np.float32)) == message(kind, bytes(length))


def test_audio_is_little_endian_and_its_level_is_kept() -> None:
    stream = named()
    list(stream.receive(message(0x12, struct.pack("<320h", *[0x1000] * 320))))
    frame = next(iter(stream.receive(message(0x12, struct.pack("<320h", *[0x1000] * 320)))))
    assert frame.pcm[0] == pytest.approx(0x1000 / 32768)
    assert stream.audio(np.full(1, 0x1000 / 32767, np.float32)) == message(0x12, b"\x00\x10")


def test_keys_and_hang_up() -> None:
    stream = named()
    assert list(stream.receive(message(0x03, b"5") + message(0x00))) == [PressKey("5"), HangUp("caller hung up")]
    assert stream.hang_up() == b"\x00\x00\x00"


def test_a_call_is_the_same_however_its_bytes_are_cut() -> None:
    data = message(0x10, bytes(320)) * 3 + message(0x03, b"#") + message(0x00)
    whole = [type(entry) for entry in named().receive(data)]
    stream, one_by_one = named(), []
    for i in range(len(data)):
        one_by_one += [type(entry) for entry in stream.receive(data[i : i + 1])]
    assert one_by_one == whole
    assert whole[-2:] == [PressKey, HangUp]


@pytest.mark.parametrize(
    "data",
    [
        message(0x10, bytes(320)),
        message(0x01, b"short"),
        message(0x01, CALL.bytes) * 2,
        message(0x01, CALL.bytes) + message(0xFF, b"\x01"),
        message(0x01, CALL.bytes) + message(0x10, bytes(320)) + message(0x12, bytes(640)),
    ],
    ids=["audio before the name", "short name", "named twice", "error", "another rate"],
)
def test_what_is_no_audiosocket_is_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        list(AudioSocketStream().receive(data))


def test_kinds_that_came_later_are_passed_over() -> None:
    assert list(named().receive(message(0x7E, b"?") + message(0x03, b"1"))) == [PressKey("1")]


@given(st.lists(st.binary(max_size=700), max_size=8))
def test_no_bytes_break_the_stream(chunks: list[bytes]) -> None:
    stream = named()
    with contextlib.suppress(PeerError):
        for chunk in chunks:
            list(stream.receive(chunk))
