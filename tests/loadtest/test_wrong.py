"""Answers that belong to somebody else."""

import pytest

from loadtest.dialogue import Turn
from loadtest.wrong import is_wrong

TEXTS = ("the cat sat on the mat", "please book a table for seven")


def turn(understood: str, answered: str = "", expect: tuple[str, ...] = ()) -> Turn:
    return Turn("clip", TEXTS[0], 0.0, 1.0, 0.3, 0.0, expect, understood, answered)


@pytest.mark.parametrize(
    ("understood", "wrong"),
    [("The cat sat on the mat.", False), ("Please book a table for 7.", True), ("mumble", False), ("", False)],
)
def test_what_was_understood_tells_callers_apart(understood: str, wrong: bool) -> None:
    assert is_wrong(turn(understood), TEXTS) is wrong


@pytest.mark.parametrize(("answered", "wrong"), [("That makes 4.", False), ("It is four", False), ("Five!", True)])
def test_an_answer_must_have_one_of_the_expected_words(answered: str, wrong: bool) -> None:
    assert is_wrong(turn(TEXTS[0], answered, ("four", "4")), TEXTS) is wrong


def test_without_texts_nothing_can_be_known() -> None:
    assert not is_wrong(turn("", "", ("four",)), TEXTS)
