"""How a language model's next token tells whether a sentence is whole."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.sentence_end import end_probability, judgeable, open_ended, quoted


@pytest.mark.parametrize("text", ["Turn it on", "Turn it on.", "Turn it on?!  ", "Turn it on...", "Turn it on, "])
def test_the_recognisers_marks_are_taken_off(text: str) -> None:
    assert open_ended(text) == "Turn it on"


def test_marks_new_lines_and_end_tokens_end_a_sentence_words_and_commas_do_not() -> None:
    half = math.log(0.1)
    ends = [".", " .", "?", "!", "。", "\n", "", "<|im_end|>"]
    assert end_probability([(token, half) for token in ends]) == pytest.approx(0.8)
    assert end_probability([(token, half) for token in [",", " and", " the", "5", " <b", ";"]]) == 0


def test_scripts_that_the_model_does_not_know_are_not_judged() -> None:
    assert judgeable("Turn it on. ")
    assert not judgeable("我想要订一个房间。")
    assert not judgeable("  ")


def test_a_longer_turn_is_read_from_a_place_that_stays_while_ten_words_are_said() -> None:
    words = [f"w{i}" for i in range(60)]
    assert quoted("Turn it on.") == '"Turn it on'
    assert all(quoted(" ".join(words[:n])).startswith('"w10 ') for n in range(30, 40))
    assert quoted(" ".join(words[:40])).startswith('"w20 ')


@given(st.lists(st.tuples(st.text(max_size=6), st.floats(-50, 0)), max_size=30))
def test_any_tokens_give_a_probability(tokens: list[tuple[str, float]]) -> None:
    assert 0 <= end_probability(tokens) <= 1
