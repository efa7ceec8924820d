"""Codecs, resampling and framing: what goes in comes out, whatever the chunk sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport import g711
from transport.frame import FRAME, Framer, from_pcm16, to_pcm16
from transport.resample import Resampler


def tone(rate: int, seconds: float = 1.0, hertz: float = 1000.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


def peak(pcm: np.ndarray, rate: int) -> float:
    return float(np.fft.rfftfreq(len(pcm), 1 / rate)[np.argmax(np.abs(np.fft.rfft(pcm)))])


@pytest.mark.parametrize(
    ("source", "target"), [(8000, 16000), (24000, 16000), (48000, 16000), (22050, 24000), (22050, 8000)]
)
def test_resampling_in_chunks_is_the_same_as_in_one_piece(source: int, target: int) -> None:
    pcm = tone(source)
    whole = Resampler(source, target).push(pcm, last=True)
    stream, step = Resampler(source, target), source // 50
    parts = [stream.push(pcm[i : i + step]) for i in range(0, len(pcm), step)]
    cut = np.concatenate([*parts, stream.push(np.zeros(0, np.float32), last=True)])
    assert len(cut) == len(whole) == target
    error = np.sqrt(np.mean((cut - whole) ** 2) / np.mean(whole**2))
    assert 20 * np.log10(error + 1e-12) < -60


@pytest.mark.parametrize("source", [8000, 24000, 48000])
def test_resampling_holds_nothing_back(source: int) -> None:
    stream, given = Resampler(source, 16_000), 0
    for block in range(1, 51):
        given += len(stream.push(np.zeros(source // 50, np.float32)))
        assert given >= block * 320 - 48, "more than 3 ms wait in the filter"


def test_a_gap_of_silence_keeps_the_sample_count() -> None:
    stream = Resampler(8000, 16000)
    pcm = np.concatenate([tone(8000, 0.5), np.zeros(2400, np.float32), tone(8000, 0.5)])
    out = [stream.push(pcm[i : i + 160]) for i in range(0, len(pcm), 160)]
    out.append(stream.push(np.zeros(0, np.float32), last=True))
    assert sum(map(len, out)) == 2 * len(pcm)


@pytest.mark.parametrize("law", ["mu", "a"])
def test_a_tone_survives_g711(law: str) -> None:
    pcm = tone(8000)
    back = g711.decode(g711.encode(pcm, law), law)
    assert len(back) == len(pcm)
    assert peak(back, 8000) == pytest.approx(1000, abs=2)
    assert np.sqrt(np.mean((back - pcm) ** 2)) < 0.012


@pytest.mark.parametrize("law", ["mu", "a"])
def test_every_g711_code_decodes_and_encodes_to_itself(law: str) -> None:
    codes = bytes(range(256))
    again = g711.encode(g711.decode(codes, law), law)
    np.testing.assert_allclose(g711.decode(again, law), g711.decode(codes, law), atol=2 / 32768)


def test_known_g711_values() -> None:
    """ITU-T G.711: mu-law 0xFF is zero, 0x80 the largest; A-law 0xD5 the smallest positive step."""
    assert g711.decode(b"\xff\x80\x00") == pytest.approx(np.array([0, 32124, -32124]) / 32768)
    assert g711.decode(b"\xd5\x55", "a") == pytest.approx(np.array([8, -8]) / 32768)


@given(st.lists(st.integers(0, 900), max_size=20))
def test_framing_keeps_every_sample_and_stamps_media_time(sizes: list[int]) -> None:
    framer, position, frames = Framer(), 0, []
    for size in sizes:
        frames += framer.push(np.arange(position, position + size, dtype=np.float32))
        position += size
    assert len(frames) == sum(sizes) // FRAME
    for i, frame in enumerate(frames):
        assert frame.time == pytest.approx(i * 0.02)
        assert frame.pcm[0] == i * FRAME
        assert frame.pcm.dtype == np.float32


@given(st.binary(max_size=101))
def test_pcm16_goes_there_and_back(data: bytes) -> None:
    back = to_pcm16(from_pcm16(data))
    assert len(back) == len(data) // 2 * 2
    assert (
        np.abs(np.frombuffer(back, "<i2").astype(int) - np.frombuffer(data[: len(back)], "<i2").astype(int)).max(
            initial=0
        )
        <= 1
    )
