"""Voice activity: hysteresis by numbers, detectors by real recordings."""

import numpy as np
import pytest

from tests.conftest import manifest, recording
from vad.silero import SileroDetector, load_session
from vad.speech import WINDOW, WINDOW_SECONDS, SpeechStarted, SpeechStopped, SpeechTracker
from vad.webrtc import GatedDetector, WebRtcDetector


class Scripted:
    """Gives the probabilities of a list, one a window."""

    def __init__(self, *probabilities: float) -> None:
        self.left = list(probabilities)

    def probability(self, window: np.ndarray) -> float:
        return self.left.pop(0) if self.left else 0.0


def events(*probabilities: float) -> list[object]:
    return SpeechTracker(Scripted(*probabilities)).push(np.zeros(WINDOW * len(probabilities), np.float32))


def test_a_click_is_no_speech_two_sure_windows_or_three_likely_ones_are() -> None:
    assert events(1.0, 0, 0.3, 0, 0) == []
    assert events(0.6, 0.6, 0.1, 0.6, 0.6, 0.1) == []
    sure, likely = events(0, 0.9, 0.9), events(0, 0.5, 0.5, 0.5)
    assert sure == [SpeechStarted(pytest.approx(WINDOW_SECONDS), pytest.approx(3 * WINDOW_SECONDS))]
    assert likely == [SpeechStarted(pytest.approx(WINDOW_SECONDS), pytest.approx(4 * WINDOW_SECONDS))]


def test_a_dip_of_one_window_does_not_stop_speech() -> None:
    assert len(events(0.9, 0.9, 0.9, 0.1, 0.9, 0.1, 0.9)) == 1
    stopped = events(0.9, 0.9, 0.9, 0.1, 0.1)[-1]
    assert stopped == SpeechStopped(pytest.approx(3 * WINDOW_SECONDS), pytest.approx(5 * WINDOW_SECONDS))


def test_chunks_of_any_size_give_the_same_events() -> None:
    pcm = recording("ds_home")
    session = load_session()
    whole = SpeechTracker(SileroDetector(session)).push(pcm)
    pieces = SpeechTracker(SileroDetector(session))
    cut = [event for i in range(0, len(pcm), 171) for event in pieces.push(pcm[i : i + 171])]
    assert whole == cut


def track(detector: object, pcm: np.ndarray) -> list[object]:
    line = np.random.default_rng(0).normal(0, 1e-4, len(pcm) + 32_000).astype(np.float32)
    line[16_000 : 16_000 + len(pcm)] += pcm
    return SpeechTracker(detector).push(line)


SPEECH = [m["file"].removesuffix(".flac") for m in manifest() if m["text"] != "" and m["seconds"] < 15]
NOISE = [m["file"].removesuffix(".flac") for m in manifest() if m["text"] == ""]


@pytest.mark.parametrize("name", SPEECH)
def test_every_recording_of_speech_is_noticed_from_its_first_word(name: str) -> None:
    detector = GatedDetector(WebRtcDetector(), SileroDetector(load_session()))
    alone = track(SileroDetector(load_session()), recording(name))
    found = track(detector, recording(name))
    assert isinstance(found[0], SpeechStarted)
    assert abs(found[0].at - alone[0].at) < 0.1, "the cheap gate must not cost the first syllable"


@pytest.mark.parametrize("name", [n for n in NOISE if "vibeace" not in n])
def test_noise_and_music_are_no_speech(name: str) -> None:
    assert track(GatedDetector(WebRtcDetector(), SileroDetector(load_session())), recording(name)) == []


@pytest.mark.parametrize("level", [1e-4, 1e-3, 1e-2])
def test_faint_and_loud_line_noise_are_no_speech(level: float) -> None:
    noise = np.random.default_rng(1).normal(0, level, 16_000 * 20).astype(np.float32)
    assert track(GatedDetector(WebRtcDetector(), SileroDetector(load_session())), noise) == []


def test_the_gate_keeps_the_judge_from_working_on_silence() -> None:
    class Counting:
        asked = 0

        def probability(self, window: np.ndarray) -> float:
            self.asked += 1
            return 0.0

    judge = Counting()
    gated = GatedDetector(WebRtcDetector(), judge)
    for _ in range(1000):
        gated.probability(np.zeros(WINDOW, np.float32))
    assert judge.asked == 0


def test_webrtc_alone_hears_speech_as_a_fallback() -> None:
    assert any(isinstance(e, SpeechStarted) for e in track(WebRtcDetector(), recording("lv_0880")))
