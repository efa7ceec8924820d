"""Calls recorded as sound: who is on which side and when, and a file that players read."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.voice.fakes import FakeSynthesizer, Scene, ScriptedLeg
from transport.frame import AudioFrame
from voice.recording import RecordedLeg, Recorder, StereoTrack


def ones(count: int) -> np.ndarray:
    return np.ones(count, np.float32)


def test_the_agent_is_put_where_it_was_sent() -> None:
    track = StereoTrack()
    track.heard(ones(1000))
    track.said(ones(500))
    track.said(ones(500))
    track.heard(ones(3000))
    both = track.take()
    assert both is not None
    assert both.shape == (2, 4000)
    assert np.flatnonzero(both[1]).tolist() == list(range(1000, 2000))


def test_what_was_sent_ahead_and_dropped_is_not_there() -> None:
    track = StereoTrack()
    track.said(ones(1600))
    track.heard(ones(600))
    track.dropped()
    track.heard(ones(1000))
    both = track.take()
    assert both is not None
    assert both[1].sum() == 600


@given(st.lists(st.tuples(st.sampled_from(["heard", "said", "take"]), st.integers(1, 700)), max_size=60))
def test_taken_in_pieces_it_is_the_same_as_whole(steps: list[tuple[str, int]]) -> None:
    whole, pieces = StereoTrack(), StereoTrack()
    taken = [np.zeros((2, 0), np.float32)]
    for what, count in steps:
        if what == "take":
            taken += [piece for piece in [pieces.take(count)] if piece is not None]
        else:
            getattr(whole, what)(ones(count))
            getattr(pieces, what)(ones(count))
    taken += [piece for piece in [pieces.take()] if piece is not None]
    expected = whole.take()
    assert np.array_equal(np.concatenate(taken, axis=1), np.zeros((2, 0)) if expected is None else expected)


def levels(file: Path) -> np.ndarray:
    """Loudest sample of each side in each tenth of a second, (2, n)."""
    with av.open(str(file)) as container:
        pcm = np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)
        rate = container.streams.audio[0].rate
    tenth = rate // 10
    whole = np.abs(pcm[:, : pcm.shape[1] // tenth * tenth])
    return whole.reshape(2, -1, tenth).max(axis=2)


def tone(pcm: np.ndarray) -> np.ndarray:
    """The same loudness as a sound: Opus keeps no constant."""
    return pcm * np.sin(np.arange(len(pcm)) * (2 * np.pi * 400 / 16_000)).astype(np.float32)


class SoundingLeg(ScriptedLeg):
    async def frames(self):
        async for entry in super().frames():
            yield replace(entry, pcm=tone(entry.pcm)) if isinstance(entry, AudioFrame) else entry


class SoundingVoice(FakeSynthesizer):
    async def speak(self, text, voice, *, deadline=0.0):
        async for pcm in super().speak(text, voice, deadline=deadline):
            yield tone(pcm)


def test_a_call_becomes_a_file_with_both_sides(tmp_path: Path, run_virtual) -> None:
    recorder = Recorder(tmp_path)
    leg, scene = SoundingLeg([(1.0, 2.0)], 6.0), Scene(synthesizer=SoundingVoice())
    run_virtual(scene.call(recorder.tap(leg, "call_a")))
    recorder.close()
    caller, agent = levels(recorder.file("call_a"))
    assert len(caller) in (59, 60, 61)
    assert caller[12:19].min() > 0.1
    assert caller[:9].max() < 0.05
    assert agent[:24].max() < 0.05, "the answer comes at 2.5 s"
    assert agent[28:34].min() > 0.1
    assert recorder.file("call_a").stat().st_mode & 0o077 == 0, "nobody else reads it"


def test_a_full_disk_ends_the_recording_and_not_the_call(tmp_path: Path, run_virtual) -> None:
    (tmp_path / "folder").write_text("not one")
    leg, scene = ScriptedLeg([(1.0, 2.0)], 6.0), Scene()
    thread = ThreadPoolExecutor(1)
    call = run_virtual(scene.call(RecordedLeg(leg, tmp_path / "folder" / "a.ogg", thread)))
    thread.shutdown()
    assert call.record.turns == 1
