"""The end of a turn: words, evidence and the rule by examples; smart-turn on real recordings."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.errors import ModelError
from tests.conftest import recording
from vad.smart_turn import SmartTurn
from vad.turn_end import EndpointRule, Evidence, Habit
from vad.wording import Wording, backchannel, wording
from voice.catalogue import CATALOGUE
from voice.config import Settings

RULE = EndpointRule()
SURE = Evidence(sound=0.98, sentence=0.6, wording=Wording.NEUTRAL, judged=True)
UNSURE = Evidence(sound=0.5, sentence=0.1, wording=Wording.NEUTRAL, judged=True)
GOES_ON = Evidence(sound=0.05, sentence=0.003, wording=Wording.OPEN, judged=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I want to reset the", Wording.OPEN),
        ("well, um", Wording.OPEN),
        ("My name is... ", Wording.OPEN),
        ("Because of the weather,", Wording.OPEN),
        ("我想要订一个房间 因为", Wording.OPEN),
        ("It's five five five", Wording.COUNTING),
        ("1,0001", Wording.COUNTING),
        ("in 1813.", Wording.NEUTRAL),
        ("my number is 555", Wording.COUNTING),
        ("Yes.", Wording.CLOSED),
        ("No", Wording.CLOSED),
        ("Thank you. Bye.", Wording.NEUTRAL),
        ("okay thanks", Wording.CLOSED),
        ("Turn on the living room lamp.", Wording.NEUTRAL),
        ("ten of clubs", Wording.NEUTRAL),
        ("", Wording.NEUTRAL),
        ("?!", Wording.NEUTRAL),
    ],
)
def test_how_words_end(text: str, expected: Wording) -> None:
    assert wording(text) is expected


@pytest.mark.parametrize("text", ["Mm-hmm.", "Uh-huh.", "Okay.", "Okay, right.", "I see.", "Yeah", "嗯"])
def test_a_listeners_sounds_are_backchannels(text: str) -> None:
    assert backchannel(text)


@pytest.mark.parametrize(
    "text", ["", "No.", "Stop.", "Wait.", "Okay, but no.", "What?", "Yeah yeah yeah yeah", "Hello?"]
)
def test_words_that_want_something_are_none(text: str) -> None:
    assert not backchannel(text)


@given(st.text(max_size=80))
def test_any_text_can_be_judged(text: str) -> None:
    assert wording(text) in Wording
    assert backchannel(text) in (True, False)


def test_the_surer_the_end_the_shorter_the_wait() -> None:
    assert RULE.wait_for(SURE) == RULE.shortest
    assert RULE.wait_for(UNSURE) == RULE.unsure
    assert RULE.longest * 2 / 3 <= RULE.wait_for(GOES_ON) <= RULE.longest
    hopeless = Evidence(0.01, 0.0, Wording.OPEN, judged=True)
    assert RULE.wait_for(hopeless) == RULE.longest


def test_a_number_that_is_read_out_is_waited_for_however_complete_it_sounds() -> None:
    assert RULE.wait_for(Evidence(0.99, 0.9, Wording.COUNTING, judged=True)) > RULE.unsure


def test_a_yes_needs_no_whole_sentence() -> None:
    assert RULE.wait_for(Evidence(0.9, 0.02, Wording.CLOSED, judged=True)) == RULE.shortest


def test_without_a_language_model_the_words_endings_count() -> None:
    sounds = {ending: Evidence(0.95, None, ending, judged=True) for ending in Wording}
    assert RULE.wait_for(sounds[Wording.NEUTRAL]) == RULE.shortest
    assert RULE.wait_for(sounds[Wording.OPEN]) > RULE.shortest


def test_nothing_is_decided_before_the_words_are_known() -> None:
    assert RULE.wait_for(Evidence(sound=0.99)) >= RULE.silence
    assert RULE.wait_for(Evidence(sound=0.99, wording=Wording.NEUTRAL)) >= RULE.silence


def test_silence_decides_where_nothing_is_known_or_a_client_wants_it_so() -> None:
    assert RULE.wait_for(Evidence()) == RULE.silence
    assert RULE.wait_for(Evidence(sentence=0.9, wording=Wording.NEUTRAL, judged=True)) == RULE.silence
    assert RULE.for_silence(0.9).wait_for(SURE) == 0.9
    assert RULE.decide(1.0, 1.19, SURE) is None
    assert RULE.decide(1.0, 1.2, SURE) is not None


def test_a_caller_who_never_pauses_in_a_turn_is_waited_for_less_and_one_who_does_more_again() -> None:
    fluent = Habit()
    for _ in range(6):
        fluent = fluent.finished()
    assert RULE.wait_for(UNSURE, fluent) < RULE.unsure - 0.15
    assert RULE.wait_for(UNSURE, fluent.hesitated().hesitated()) > RULE.wait_for(UNSURE, fluent)
    assert RULE.wait_for(SURE, fluent) == RULE.shortest
    assert RULE.longest * 2 / 3 <= RULE.wait_for(GOES_ON, fluent) <= RULE.wait_for(GOES_ON)


def test_a_caller_who_pauses_all_the_time_needs_a_surer_end() -> None:
    halting = Habit()
    for _ in range(6):
        halting = halting.hesitated().hesitated().finished()
    likely = Evidence(sound=0.9, sentence=0.15, wording=Wording.NEUTRAL, judged=True)
    assert RULE.wait_for(likely) == RULE.shortest
    assert RULE.wait_for(likely, halting) == RULE.unsure


PROBABILITY = st.floats(0, 1)


@given(PROBABILITY, st.one_of(st.none(), PROBABILITY), st.sampled_from(Wording), st.booleans(), st.floats(0, 50))
def test_the_wait_stays_within_its_bounds_whatever_the_evidence(
    sound: float, sentence: float | None, ending: Wording, judged: bool, turns: float
) -> None:
    wait = RULE.wait_for(Evidence(sound, sentence, ending, judged), Habit(turns / 3, turns))
    assert RULE.shortest <= wait <= RULE.longest


def test_patience_stretches_unsure_ends_only() -> None:
    eager = RULE.with_patience(0.5)
    assert eager.wait_for(SURE) == RULE.shortest
    assert eager.wait_for(UNSURE) == RULE.unsure / 2


@pytest.fixture(scope="module")
def smart_turn() -> SmartTurn:
    return SmartTurn(CATALOGUE.file("smart-turn", Settings().models.directory))


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "seconds", "low", "high"),
    [
        ("en_living_room_lamp", None, 0.9, 1.0),
        ("card_001", None, 0.9, 1.0),
        ("fsdd_7_jackson_5", None, 0.8, 1.0),
        ("sb_spk1_snt5", 1.4, 0.0, 0.3),
        ("jfk", 4.9, 0.0, 0.2),
    ],
)
def test_smart_turn_tells_whole_turns_from_cut_ones(
    smart_turn: SmartTurn, name: str, seconds: float | None, low: float, high: float
) -> None:
    pcm = recording(name)
    cut = pcm if seconds is None else pcm[: int(seconds * 16_000)]
    line = np.random.default_rng(0).normal(0, 1e-4, 1600).astype(np.float32)
    assert low <= smart_turn.probability(np.concatenate([cut, line])) <= high


@pytest.mark.models
def test_smart_turn_takes_any_length(smart_turn: SmartTurn) -> None:
    for seconds in (0.0, 0.02, 8.0, 9.0):
        assert 0 <= smart_turn.probability(np.zeros(int(seconds * 16_000), np.float32)) <= 1


def test_a_broken_turn_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"broken\.onnx"):
        SmartTurn(tmp_path / "broken.onnx")
