"""What a call does less of when the governor says so."""

from collections.abc import Callable

import numpy as np

from budget.governor import LADDER, Effort, ladder
from tests.voice.fakes import FakeChat, FakeSynthesizer, Scene, ScriptedLeg
from transport.leg import TurnMeasured
from tts.clauses import ClauseLimits, ClauseSplitter, first_clause
from voice.session import CallSettings


def talk(run_virtual: Callable, effort: Effort, **parts: object) -> tuple[Scene, ScriptedLeg]:
    scene = Scene(effort=effort, **parts)  # type: ignore[arg-type]
    leg = ScriptedLeg([(1.0, 5.0)], 12.0)
    run_virtual(scene.call(leg, CallSettings(voice="saved")))
    return scene, leg


def test_without_speculation_nothing_is_decoded_on_a_guess_and_the_answer_comes_all_the_same(
    run_virtual: Callable,
) -> None:
    leg = ScriptedLeg([(1.0, 2.0), (2.1, 3.0), (3.1, 4.0)], 12.0)
    decodes = []
    for effort in (Effort(), Effort(speculate=False)):
        scene, one = Scene(effort=effort), ScriptedLeg(leg._speaks, 12.0)
        run_virtual(scene.call(one))
        decodes.append(len(scene.recognizer.requests))
        assert one.played
    assert decodes[1] < decodes[0]


def test_partials_are_rarer(run_virtual: Callable) -> None:
    usual, _ = talk(run_virtual, Effort(speculate=False))
    rarer, _ = talk(run_virtual, Effort(speculate=False, partial_interval=4.0))
    partials = [sum(not request.final for request in one.recognizer.requests) for one in (usual, rarer)]
    assert partials[0] > partials[1] >= 1


def test_the_smaller_recogniser_is_asked(run_virtual: Callable) -> None:
    for smaller in (False, True):
        scene, _ = talk(run_virtual, Effort(smaller=smaller))
        assert {request.smaller for request in scene.recognizer.requests} == {smaller}


def test_it_is_a_step_only_where_there_is_one() -> None:
    assert not any(step.effort.smaller for step in LADDER)
    names = [step.name for step in ladder(smaller=True)]
    assert names.index("partials rarer") < names.index("smaller recogniser") < names.index("first clause shorter")


def test_replies_are_shorter(run_virtual: Callable) -> None:
    scene, _ = talk(run_virtual, Effort(reply=0.5))
    assert [options.max_tokens for options in scene.chat.options] == [CallSettings().max_tokens // 2]


def first(limits: ClauseLimits) -> str:
    splitter = ClauseSplitter(limits)
    return next(clause for letter in "Well yes indeed one two three. " for clause in splitter.feed(letter))


def test_the_first_clause_is_shorter() -> None:
    assert first(first_clause(1.0)) == first(ClauseLimits())
    assert len(first(first_clause(0.6))) < len(first(ClauseLimits()))


def test_a_filler_is_said_at_the_deadline(run_virtual: Callable) -> None:
    settings = CallSettings(voice="saved")
    said = {settings.filler: np.full(16_000, 0.3, np.float32)}
    slow = {"chat": FakeChat(first=2.0), "synthesizer": FakeSynthesizer(), "saved": said}
    waits = []
    for effort in (Effort(), Effort(filler=True)):
        _, leg = talk(run_virtual, effort, **slow)
        waits.append(leg.all(TurnMeasured)[0].record["voice_to_voice_ms"])
    assert 1900 <= waits[0] <= 2200
    assert 800 <= waits[1] <= 1000, "0.4 s after the end of the turn"


def test_every_step_of_the_ladder_still_answers(run_virtual: Callable) -> None:
    for step in LADDER:
        _, leg = talk(run_virtual, step.effort)
        assert leg.played, step.name
