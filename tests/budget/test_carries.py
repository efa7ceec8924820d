"""How many calls a machine carries as it slows down, loses cores, or is talked to more."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from budget.carries import Circumstances, answer, carries, question, slower, talking
from budget.twin import Target
from budget.unit_costs import TALK, UnitCosts

COSTS = UnitCosts(decode=0.12, judge=0.03, ahead=0.02, first_words=0.09, more_words=0.2, first_clause=0.06, clause=0.2)
USUAL = Circumstances(cores=4.0)


def calls(now: Circumstances) -> int:
    return carries(COSTS, now, Target(), most=64)


def test_less_of_a_machine_carries_fewer_calls() -> None:
    usual = calls(USUAL)
    assert 4 <= usual < 64
    for worse in (
        replace(USUAL, cores=2.0),
        replace(USUAL, asr=2.0),
        replace(USUAL, tts=3.0),
        replace(USUAL, llm=3.0),
        replace(USUAL, talks=0.75),
    ):
        assert calls(worse) < usual, worse


def test_a_machine_far_too_slow_carries_none() -> None:
    assert calls(replace(USUAL, asr=30.0, llm=30.0, tts=30.0)) == 0


@pytest.mark.parametrize("share", [0.2, 0.4, 0.5, 0.7])
def test_callers_talk_the_share_of_a_turn_that_was_seen(share: float) -> None:
    talk = talking(share)
    waits = sum(part * wait for part, wait in talk.waits)
    turn = talk.speaks + waits + talk.answer + sum(talk.thinks) / 2
    assert talk.speaks / turn == pytest.approx(share, abs=0.01)


def test_nothing_seen_is_as_usual() -> None:
    assert talking(None) == TALK


def test_only_the_slow_engines_pieces_take_longer() -> None:
    slow = slower(COSTS, replace(USUAL, tts=2.0))
    assert (slow.clause, slow.first_clause) == (2 * COSTS.clause, 2 * COSTS.first_clause)
    assert (slow.decode, slow.first_words) == (COSTS.decode, COSTS.first_words)


def test_only_what_matters_is_a_change() -> None:
    assert not replace(USUAL, cores=3.7, asr=1.05).changed_from(USUAL)
    assert replace(USUAL, cores=3.0).changed_from(USUAL)
    assert replace(USUAL, llm=1.3).changed_from(USUAL)
    assert replace(USUAL, talks=0.45).changed_from(USUAL)
    assert not replace(USUAL, talks=0.46).changed_from(replace(USUAL, talks=0.45))


def test_the_program_answers_as_the_function_does() -> None:
    asked = question(COSTS, USUAL, Target(), most=64)
    assert answer(json.loads(asked)) == calls(USUAL)
    program = subprocess.run(
        [sys.executable, "-P", "-m", "budget.carries"], input=asked, capture_output=True, text=True, check=True
    )
    assert int(program.stdout) == calls(USUAL)
