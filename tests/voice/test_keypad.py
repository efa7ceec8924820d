"""Keys of a telephone: when they are complete, and how a call answers them."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.errors import PeerError
from tests.voice.fakes import FakeChat, Scene, ScriptedLeg
from transport.leg import CallTrouble, MessageAdded, ReplyCut, TurnMeasured
from transport.requests import PressKey, ReadKeys
from voice.keypad import KEYS, Keypad

MOST, PAUSE = ReadKeys().most, ReadKeys().pause


def test_keys_are_complete_after_a_pause() -> None:
    pad = Keypad()
    pad.press("1", 0.0)
    pad.press("2", 2.0)
    assert not pad.complete(2.0 + PAUSE - 0.1)
    assert pad.complete(2.0 + PAUSE)
    assert pad.take() == "12"
    assert not pad.complete(100.0)


def test_the_hash_key_ends_them_and_is_no_part_of_them() -> None:
    pad = Keypad()
    for key in "42#":
        pad.press(key, 0.0)
    assert pad.complete(0.0)
    assert pad.take() == "42"


def test_the_hash_key_alone_is_a_key() -> None:
    pad = Keypad()
    pad.press("#", 0.0)
    assert pad.complete(0.0)
    assert pad.take() == "#"


@pytest.mark.parametrize("key", ["", "12", "x", "é", "\n"])
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(PeerError):
        Keypad().press(key, 0.0)


@given(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=100))
def test_there_are_never_too_many(keys: list[str]) -> None:
    pad = Keypad()
    for key in keys:
        pad.press(key, 0.0)
    assert 1 <= len(pad.pressed) <= MOST


def test_a_call_answers_keys_as_a_turn(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([], 9.0), Scene()
    leg.requests = [(1.0, PressKey("4")), (1.5, PressKey("2")), (2.0, PressKey("#"))]
    call = run_virtual(scene.call(leg))
    assert [entry.text for entry in call.dialogue.entries()] == ["[keys: 42]", "Good morning to you."]
    assert leg.all(MessageAdded)[0].text == "[keys: 42]"
    assert 2.0 <= leg.played[0] <= 2.4
    assert [notice.record["caller"] for notice in leg.all(TurnMeasured)] == ["[keys: 42]"]


def test_keys_without_a_hash_are_answered_after_the_pause(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([], 9.0), Scene()
    leg.requests = [(1.0, PressKey("7"))]
    run_virtual(scene.call(leg))
    assert 1.0 + PAUSE <= leg.played[0] <= 1.0 + PAUSE + 1.3


def test_a_key_stops_the_agent(run_virtual: Callable) -> None:
    words = [f" {w}" for w in "one two three, four five six, seven eight nine, ten eleven twelve.".split()]
    leg, scene = ScriptedLeg([(1.0, 2.0)], 9.0), Scene(chat=FakeChat(words=words))
    leg.requests = [(4.0, PressKey("1"))]
    run_virtual(scene.call(leg))
    assert leg.all(ReplyCut)
    assert not leg.sounding(4.05, 6.0)
    assert leg.sounding(6.0), "and the key is answered"


def test_what_is_no_key_changes_nothing(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([], 5.0), Scene()
    leg.requests = [(1.0, PressKey("~"))]
    call = run_virtual(scene.call(leg))
    assert call.dialogue.entries() == ()
    assert leg.all(CallTrouble)[0].code == "invalid_digit"
