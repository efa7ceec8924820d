"""Speech that resumes, interrupts or only listens, by script on a virtual clock, at every moment."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.voice.fakes import FakeChat, FakeRecognizer, FakeSynthesizer, Scene, ScriptedLeg
from transport.leg import MessageDeleted, ReplyCut, ReplyEnded, ReplyStarted, ReplyText, TurnMeasured
from voice.session import CallSettings

COUNT = [f" {w}" for w in "one two three, four five six, seven eight nine, ten eleven twelve.".split()]


def scene(text: str = "hello", **chat: object) -> Scene:
    """Engines of a call in which every pause sounds and reads like an end."""
    return Scene(FakeRecognizer(text), FakeChat(sentence=0.9, **chat), complete=0.99)


def texts(leg: ScriptedLeg) -> str:
    return "".join(notice.text for notice in leg.all(ReplyText))


def _once_the_agent_speaks(leg: ScriptedLeg, change: Callable[[], None]) -> None:
    original = leg.play

    async def play(pcm: np.ndarray) -> None:
        change()
        await original(pcm)

    leg.play = play


def test_a_turn_that_is_surely_complete_is_answered_as_soon_as_the_answer_is_there(run_virtual: Callable) -> None:
    leg = ScriptedLeg([(1.0, 2.0)], 6.0)
    run_virtual(scene().call(leg))
    record = leg.all(TurnMeasured)[0].record
    assert record["voice_to_voice_ms"] <= 420, "0.1 s of recognition, 0.08 to the first word, 0.06 to its sound"
    assert 200 <= record["endpoint_ms"] <= 300


def test_a_turn_that_sounds_unfinished_is_waited_for(run_virtual: Callable) -> None:
    leg, unfinished = ScriptedLeg([(1.0, 2.0)], 6.0), scene("I want to book a")
    unfinished.complete, unfinished.chat.sentence = 0.05, 0.001
    run_virtual(unfinished.call(leg))
    assert 1450 <= leg.all(TurnMeasured)[0].record["voice_to_voice_ms"] <= 2300


def test_a_turn_model_that_breaks_leaves_the_decision_to_silence(run_virtual: Callable) -> None:
    leg, broken = ScriptedLeg([(1.0, 2.0)], 6.0), scene()
    broken.complete = None
    run_virtual(broken.call(leg))
    assert 480 <= leg.all(TurnMeasured)[0].record["voice_to_voice_ms"] <= 620


@pytest.mark.parametrize("gap", [round(0.1 + 0.05 * i, 2) for i in range(22)])
def test_speech_that_resumes_at_any_moment_leaves_the_history_that_was_heard(run_virtual: Callable, gap: float) -> None:
    """Up to the first moments of the answer both parts are one turn; later they are two, with what was heard."""
    leg, script = ScriptedLeg([(1.0, 2.0), (2.0 + gap, 3.0 + gap)], 12.0), scene(words=COUNT)
    call = run_virtual(script.call(leg))
    entries = [(entry.role, entry.text) for entry in call.dialogue.entries()]
    begun = [at for at in leg.played if at < 2.0 + gap]
    said = "".join(COUNT).strip()
    if not begun or 2.0 + gap - begun[0] <= 0.25:
        assert entries == [("user", "hello"), ("assistant", said)]
        assert len(leg.all(TurnMeasured)) == 1
        assert script.chat.prompts[-1][-1].text == "hello"
        assert len(script.chat.prompts[-1]) == 2, "nothing of the answer taken back is in the prompt"
    elif 2.0 + gap - begun[0] >= 0.4:
        assert [role for role, _ in entries][-2:] == ["user", "assistant"]
        assert entries[-1] == ("assistant", said)
        assert leg.all(TurnMeasured)[0].record["outcome"] == "barged_in"
        assert all(said.startswith(text) for role, text in entries if role == "assistant")


def test_an_answer_taken_back_in_its_first_moments_leaves_no_trace(run_virtual: Callable) -> None:
    leg, script = ScriptedLeg([(1.0, 2.0), (2.5, 3.4)], 9.0), scene(words=COUNT)
    run_virtual(script.call(leg))
    assert leg.sounding(2.2, 2.5), "the answer had begun"
    assert leg.flushed
    assert not leg.sounding(2.66, 3.4)
    assert len(leg.all(MessageDeleted)) == 1
    assert leg.all(ReplyEnded)[0].outcome == "cancelled"
    assert leg.all(ReplyEnded)[0].text == ""


@pytest.mark.parametrize("said", ["", "Mm-hmm.", "Okay."])
def test_a_sound_or_a_backchannel_lets_the_agent_go_on_where_it_stopped(run_virtual: Callable, said: str) -> None:
    leg, script = ScriptedLeg([(1.0, 2.0), (4.0, 4.3)], 12.0), scene(words=COUNT)
    _once_the_agent_speaks(leg, lambda: setattr(script.recognizer, "text", said))
    call = run_virtual(script.call(leg))
    assert not leg.sounding(4.15, 4.4), "it stops at once"
    assert leg.sounding(4.4, 5.0), "and goes on"
    assert [entry.text for entry in call.dialogue.entries()] == ["hello", "".join(COUNT).strip()]
    assert texts(leg) == "".join(COUNT)
    assert len(leg.all(ReplyStarted)) == 1
    assert not leg.all(ReplyCut)
    assert [measured.record["outcome"] for measured in leg.all(TurnMeasured)] == ["answered"]


def test_yes_to_a_question_that_the_agent_asked_is_an_answer(run_virtual: Callable) -> None:
    words = ["Do", " you", " want", " a", " table?", " We", " have", " one", " at", " eight", " or", " at", " nine."]
    leg, script = ScriptedLeg([(1.0, 2.0), (4.6, 4.9)], 12.0), scene("Yes.", words=words)
    run_virtual(script.call(leg))
    assert leg.all(ReplyCut)[0].text.startswith("Do you want a table?")
    assert len(leg.all(ReplyStarted)) == 2


def test_long_speech_over_the_agent_ends_its_reply_before_the_words_are_known(run_virtual: Callable) -> None:
    leg, script = ScriptedLeg([(1.0, 2.0), (4.0, 6.5)], 14.0), scene(words=COUNT)
    _once_the_agent_speaks(leg, lambda: setattr(script.recognizer, "seconds", 3.0))
    run_virtual(script.call(leg))
    cut = next(at for at, notice in leg.notices if isinstance(notice, ReplyCut))
    assert 4.8 <= cut <= 5.2


def test_a_caller_who_interrupts_every_sentence_is_answered_every_time(run_virtual: Callable) -> None:
    starts = [1.0 + 3.0 * i for i in range(10)]
    leg, script = ScriptedLeg([(at, at + 1.2) for at in starts], 46.0), scene(words=COUNT * 3)
    call = run_virtual(script.call(leg))
    roles = [entry.role for entry in call.dialogue.entries()]
    assert roles == ["user", "assistant"] * 10
    assert len(leg.all(ReplyStarted)) == 10


@pytest.mark.parametrize("words", [[], [" "], ["\n\n"], ["***"], ["```python\nprint()\n```"], ["a" * 4000]])
def test_a_model_that_says_nothing_speakable_ends_in_a_sane_turn(run_virtual: Callable, words: list[str]) -> None:
    leg, script = ScriptedLeg([(1.0, 2.0), (6.0, 7.0)], 12.0), scene(words=words)
    run_virtual(script.call(leg))
    assert len(leg.all(TurnMeasured)) == 2
    assert len(leg.all(ReplyEnded)) == 2
    if words != ["a" * 4000]:
        assert CallSettings().apology in texts(leg), "the caller is not left in silence"


def test_two_minutes_of_speech_without_a_pause_and_an_hour_of_silence_keep_memory_bounded(
    run_virtual: Callable,
) -> None:
    leg, script = ScriptedLeg([(1.0, 121.0)], 126.0), scene()
    call = run_virtual(script.call(leg))
    assert max(len(request.pcm) for request in script.recognizer.requests) <= 28 * 16_000
    assert [entry.role for entry in call.dialogue.entries()] == ["user", "assistant"]
    leg, script = ScriptedLeg([], 3600.0), scene()
    call = run_virtual(script.call(leg, CallSettings(idle_timeout=7200, max_duration=7200)))
    assert script.recognizer.requests == []
    assert call.dialogue.entries() == ()


@pytest.mark.parametrize("pace", [0.99, 1.0, 1.01])
def test_turn_fifty_is_as_fast_as_turn_two_whatever_the_callers_clock(run_virtual: Callable, pace: float) -> None:
    starts = [1.0 + 8.0 * i for i in range(50)]
    leg, script = ScriptedLeg([(at, at + 1.0) for at in starts], 410.0, pace=pace), scene()
    call = run_virtual(script.call(leg, CallSettings(prompt_tokens=300)))
    times = [measured.record["voice_to_voice_ms"] for measured in leg.all(TurnMeasured)]
    assert len(times) == 50
    assert max(times) - min(times) < 60, "a frame or two, by where the endpoint falls"
    assert len(call.dialogue.entries()) < 40, "the oldest turns were forgotten"
    firsts = {prompt[1].text for prompt in script.chat.prompts[10:] if len(prompt) > 1}
    assert len(firsts) <= 2
    changes = sum(a[:2] != b[:2] for a, b in zip(script.chat.prompts[1:], script.chat.prompts[2:], strict=False))
    assert changes <= 8, "in large steps, so that the model keeps its cache in between"


@pytest.mark.parametrize("since", [1.9, 2.02, 2.1, 2.3])
def test_a_client_that_stops_sending_audio_is_answered_all_the_same(run_virtual: Callable, since: float) -> None:
    leg, script = ScriptedLeg([(1.0, 2.0)], 9.0), scene()
    script.complete = 0.4
    leg.stalls = (since, 8.9)
    call = run_virtual(script.call(leg))
    assert [entry.role for entry in call.dialogue.entries()] == ["user", "assistant"]
    assert leg.played[0] < since + 3.0


def test_synthesis_of_the_next_clause_runs_ahead_of_the_ear(run_virtual: Callable) -> None:
    script = scene(words=COUNT)
    script.synthesizer = FakeSynthesizer(first=0.3)
    leg = ScriptedLeg([(1.0, 2.0)], 9.0)
    run_virtual(script.call(leg))
    gaps = np.diff(leg.played)
    assert gaps.max() < 0.03, "no gap between clauses"


def test_a_model_that_stalls_in_mid_sentence_is_bridged_once_and_the_history_is_without_it(
    run_virtual: Callable,
) -> None:
    words = ["Well now. ", "Let me ", "see."]
    leg, script = ScriptedLeg([(1.0, 2.0)], 20.0), scene(words=words, per_word=5.0)
    settings = CallSettings(voice="saved")
    script.saved = {settings.filler: np.full(16_000, 0.3, np.float32)}
    call = run_virtual(script.call(leg, settings))
    first, *others = [gap for gap in np.diff(leg.played) if gap > 1.0]
    assert 1.4 <= first <= 1.7
    assert len(others) == 1, "said once, though the model stalls on"
    assert call.dialogue.entries()[-1].text == "Well now. Let me see."
