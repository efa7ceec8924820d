"""Recordings replayed as if live on a virtual clock: real voice activity and turn detection, exact latency."""

import asyncio
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest

from loadtest.latency import speech_span
from tests.conftest import recording
from tests.voice.fakes import FakeChat, FakeRecognizer, Scene, ScriptedLeg
from transport.frame import AudioFrame
from transport.leg import MessageDeleted
from transport.requests import HangUp, Request
from vad.silero import SileroDetector, load_session
from vad.smart_turn import SmartTurn
from voice.catalogue import CATALOGUE
from voice.config import Settings

pytestmark = pytest.mark.models
RATE, LEAD, TAIL = 16_000, 0.5, 6.0


class RecordedLeg(ScriptedLeg):
    """Plays audio into the call at real time, with line noise around it."""

    def __init__(self, pcm: np.ndarray) -> None:
        super().__init__([], 0)
        pcm = pcm / np.abs(pcm).max() * 0.5
        self.ended = LEAD + speech_span(pcm)[1] / RATE
        self.line = np.random.default_rng(0).normal(0, 3e-4, len(pcm) + int((LEAD + TAIL) * RATE)).astype(np.float32)
        self.line[int(LEAD * RATE) : int(LEAD * RATE) + len(pcm)] += pcm

    async def frames(self) -> AsyncIterator[AudioFrame | Request]:
        loop = asyncio.get_running_loop()
        self.began = began = loop.time()
        for i in range(len(self.line) // 320):
            await asyncio.sleep(max(0.0, began + (i + 1) * 0.02 - loop.time()))
            yield AudioFrame(self.line[i * 320 : (i + 1) * 320], i * 0.02)
        yield HangUp("recording over")


@pytest.fixture(scope="module")
def smart_turn() -> SmartTurn:
    return SmartTurn(CATALOGUE.file("smart-turn", Settings().models.directory))


def real_ears(smart_turn: SmartTurn, text: str, sentence: float) -> Scene:
    """The real detector and turn model; recognition and language model by script."""
    scene = Scene(FakeRecognizer(text), FakeChat(sentence=sentence))
    scene.detector = SileroDetector(load_session())

    async def judge(pcm: np.ndarray) -> float:
        await asyncio.sleep(0.042)
        return smart_turn.probability(pcm)

    scene.judge = judge
    return scene


def test_a_recorded_command_is_answered_soon_after_its_last_sample_and_always_after_the_same_time(
    run_virtual: Callable, smart_turn: SmartTurn
) -> None:
    delays = []
    for _ in range(2):
        leg = RecordedLeg(recording("card_001"))
        run_virtual(real_ears(smart_turn, "Ten of clubs.", 0.28).call(leg))
        delays.append(leg.played[0] - leg.began - leg.ended)
    assert delays[0] == pytest.approx(delays[1], abs=1e-6)
    assert 0.2 <= delays[0] <= 0.45


def test_pauses_of_a_recorded_speech_are_no_ends_while_its_sentence_is_open(
    run_virtual: Callable, smart_turn: SmartTurn
) -> None:
    leg = RecordedLeg(recording("jfk"))
    run_virtual(real_ears(smart_turn, "And so my fellow Americans ask not", 0.01).call(leg))
    assert all(at - leg.began > leg.ended for at in leg.played), "three pauses, the longest of 1.1 s"
    assert leg.played


@pytest.mark.parametrize("gap", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
def test_a_recorded_sentence_that_goes_on_after_any_gap_leaves_one_turn_or_what_was_heard(
    run_virtual: Callable, smart_turn: SmartTurn, gap: float
) -> None:
    part = recording("en_living_room_lamp")
    part = part[slice(*speech_span(part))]
    leg = RecordedLeg(np.concatenate([part, np.zeros(int(gap * RATE), np.float32), part]))
    call = run_virtual(real_ears(smart_turn, "Turn on the living room lamp.", 0.28).call(leg))
    entries = [(entry.role, entry.text) for entry in call.dialogue.entries()]
    last = [("user", "Turn on the living room lamp."), ("assistant", "Good morning to you.")]
    assert entries[-2:] == last
    if len(entries) == 2:
        assert not leg.all(MessageDeleted) or leg.flushed
    else:
        assert "Good morning to you.".startswith(entries[1][1]), "of the first answer only what was heard"
