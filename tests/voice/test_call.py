"""Whole calls by script on a virtual clock: who speaks when, and what the conversation remembers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from llm.chat import Message
from tests.voice.fakes import FakeChat, FakeRecognizer, FakeSynthesizer, Scene, ScriptedLeg
from transport.leg import (
    CallerHeard,
    CallTrouble,
    MessageDeleted,
    ReplyCut,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    SessionChanged,
    TurnMeasured,
)
from transport.requests import (
    AddMessage,
    CancelReply,
    ChangeSession,
    CommitAudio,
    CreateReply,
    DeleteMessage,
    SessionOptions,
    TruncateReply,
    TurnDetection,
)
from voice.session import CallSettings


def texts(leg: ScriptedLeg) -> str:
    return "".join(notice.text for notice in leg.all(ReplyText))


def test_a_turn_is_answered_at_the_endpoint_and_not_later(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(1.0, 2.0)], 6.0), Scene()
    call = run_virtual(scene.call(leg))
    first = leg.played[0]
    assert 2.45 <= first <= 2.60, "all work hides behind the half second of silence"
    assert scene.chat.prompts == [[Message("system", "Be brief."), Message("user", "hello")]]
    assert texts(leg) == "Good morning to you."
    assert [entry.text for entry in call.dialogue.entries()] == ["hello", "Good morning to you."]
    record = leg.all(TurnMeasured)[0].record
    assert record["outcome"] == "answered"
    assert 450 <= record["voice_to_voice_ms"] <= 620
    assert record["asr_final_ms"] == pytest.approx(100, abs=25)
    assert record["llm_first_token_ms"] == pytest.approx(80, abs=25)
    assert record["tts_first_audio_ms"] == pytest.approx(60, abs=25)


def test_a_pause_inside_a_sentence_drops_the_prepared_answer_unheard(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(1.0, 2.0), (2.4, 3.0)], 7.0), Scene()
    call = run_virtual(scene.call(leg))
    assert not leg.sounding(0, 3.4)
    assert len(scene.chat.prompts) == 2, "one answer was prepared and dropped"
    assert len(leg.all(ReplyStarted)) == 1
    assert [entry.role for entry in call.dialogue.entries()] == ["user", "assistant"]
    assert len(leg.all(TurnMeasured)) == 1


def test_speech_before_the_first_sound_takes_the_answer_back_into_one_turn(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(1.0, 2.0), (2.7, 3.4)], 8.0), Scene(chat=FakeChat(first=1.5))
    call = run_virtual(scene.call(leg))
    assert not leg.sounding(0, 3.4)
    assert len(leg.all(MessageDeleted)) == 1
    assert [entry.role for entry in call.dialogue.entries()] == ["user", "assistant"]
    assert leg.all(ReplyEnded)[0].outcome == "cancelled"


def test_barge_in_stops_the_sound_at_once_and_keeps_the_heard_words(run_virtual: Callable) -> None:
    words = [f" {w}" for w in "one two three, four five six, seven eight nine, ten eleven twelve.".split()]
    leg, scene = ScriptedLeg([(1.0, 2.0), (3.6, 4.4)], 5.0), Scene(chat=FakeChat(words=words))
    call = run_virtual(scene.call(leg))
    noticed = leg.flushed[0]
    assert 3.6 <= noticed <= 3.8
    assert not leg.sounding(noticed + 0.001, 4.8), "no sample after the VAD noticed"
    cut = leg.all(ReplyCut)[0]
    assert cut.heard == pytest.approx(noticed - leg.played[0], abs=0.12)
    said = call.dialogue.entries()[1].text
    assert said == cut.text
    assert said.startswith("one two three")
    assert "seven" not in said
    assert leg.all(TurnMeasured)[0].record["outcome"] == "barged_in"


def test_a_turn_is_recorded_when_its_caller_hangs_up_during_the_answer(run_virtual: Callable) -> None:
    words = [f" {w}" for w in "one two three, four five six, seven eight nine, ten eleven twelve.".split()]
    leg, scene = ScriptedLeg([(1.0, 2.0)], 3.4), Scene(chat=FakeChat(words=words))
    call = run_virtual(scene.call(leg))
    record = leg.all(TurnMeasured)[0].record
    assert record["outcome"] == "hung_up"
    assert record["cut_at_s"] == pytest.approx(3.4 - leg.played[0], abs=0.12)
    assert record["heard"].startswith("one two")
    assert "twelve" not in record["heard"]
    assert call.record.outcomes == {"hung_up": 1}


def test_the_next_turn_knows_only_what_was_heard(run_virtual: Callable) -> None:
    words = [f" {w}" for w in "one two three, four five six, seven eight nine, ten eleven twelve.".split()]
    leg, scene = ScriptedLeg([(1.0, 2.0), (3.6, 4.4)], 9.0), Scene(chat=FakeChat(words=words))
    run_virtual(scene.call(leg))
    last = scene.chat.prompts[-1]
    assert last[2].role == "assistant"
    assert "twelve" not in last[2].text
    assert last[3] == Message("user", "hello")


def test_noise_without_words_is_no_turn_and_no_answer(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(1.0, 1.3)], 4.0), Scene(recognizer=FakeRecognizer(text=""))
    call = run_virtual(scene.call(leg))
    assert leg.played == []
    assert call.dialogue.entries() == ()
    assert leg.all(CallerHeard)[-1].text == ""


def test_a_noise_burst_after_the_question_does_not_cost_the_answer(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(1.0, 2.0), (2.3, 2.5)], 7.0), Scene()
    run_virtual(scene.call(leg))
    assert texts(leg) == "Good morning to you."


def test_partial_transcripts_come_while_the_caller_speaks_and_warm_the_prompt(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(1.0, 5.0)], 8.0), Scene()
    run_virtual(scene.call(leg))
    partials = [notice for notice in leg.all(CallerHeard) if not notice.final]
    assert len(partials) >= 3
    assert Message("user", "hello") in scene.chat.prefills[-1]


@pytest.mark.parametrize(("silence", "asked"), [(None, True), (0.5, False)])
def test_sentences_are_judged_only_where_they_decide_when_the_turn_ends(
    run_virtual: Callable, silence: float | None, asked: bool
) -> None:
    leg, scene = ScriptedLeg([(1.0, 5.0)], 8.0), Scene()
    leg.requests = [(0.1, ChangeSession(SessionOptions(turn_detection=TurnDetection(silence=silence))))]
    run_virtual(scene.call(leg))
    assert bool(scene.chat.judged) is asked
    assert texts(leg) == "Good morning to you."


@pytest.mark.parametrize("after", [0, 3])
def test_a_model_that_fails_is_said_in_one_sentence_and_the_call_goes_on(run_virtual: Callable, after: int) -> None:
    leg, scene = ScriptedLeg([(1.0, 2.0), (6.0, 7.0)], 11.0), Scene(chat=FakeChat(broken_after=after))
    run_virtual(scene.call(leg))
    settings = CallSettings()
    assert settings.apology in texts(leg)
    assert leg.all(ReplyEnded)[0].outcome == "failed"
    assert leg.all(TurnMeasured)[0].record["outcome"] == "failed"
    assert len(leg.all(ReplyEnded)) == 2, "the second turn is taken as well"


def test_a_voice_that_fails_still_apologises_with_the_saved_phrase(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(1.0, 2.0)], 6.0), Scene(synthesizer=FakeSynthesizer(broken=True))
    run_virtual(scene.call(leg))
    assert len(leg.played) == 50, "one second of saved audio"
    assert leg.all(ReplyEnded)[0].outcome == "failed"


def test_a_recogniser_that_fails_is_said_and_the_next_turn_is_heard(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(1.0, 1.4), (5.0, 5.4)], 9.0), Scene(recognizer=FakeRecognizer(broken=True))
    run_virtual(scene.call(leg))
    assert leg.all(CallTrouble)[0].code == "engine_failed"
    assert leg.sounding(1.4, 4.0)
    assert len(leg.all(CallTrouble)) == 2


def test_the_greeting_is_said_first_and_can_be_interrupted(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(0.4, 1.0)], 5.0, greets=True), Scene()
    call = run_virtual(scene.call(leg))
    assert leg.all(ReplyEnded)[0].outcome == "cancelled"
    assert call.dialogue.entries()[-1].text == "Good morning to you."


def test_idle_and_too_long_calls_are_hung_up(run_virtual: Callable) -> None:
    scene, leg = Scene(), ScriptedLeg([], 60.0)
    call = run_virtual(scene.call(leg, CallSettings(idle_timeout=5.0)))
    assert (call.record.reason, leg.hung_up) == ("idle", "idle")
    assert scene.chat.closed
    leg = ScriptedLeg([(i, i + 0.4) for i in range(1, 40, 2)], 60.0)
    call = run_virtual(Scene().call(leg, CallSettings(max_duration=12.0)))
    assert call.record.reason == "maximum duration reached"


def test_a_text_conversation_without_audio(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([], 3.0), Scene()
    leg.requests = [
        (0.2, ChangeSession(SessionOptions(audio=False, instructions="Short."))),
        (0.4, AddMessage("m1", "user", "Hi")),
        (0.6, CreateReply()),
        (0.6, CreateReply()),
        (2.0, DeleteMessage("m1")),
        (2.2, DeleteMessage("m1")),
    ]
    call = run_virtual(scene.call(leg))
    assert leg.played == []
    assert texts(leg) == "Good morning to you."
    assert scene.chat.prompts == [[Message("system", "Short."), Message("user", "Hi")]]
    codes = [trouble.code for trouble in leg.all(CallTrouble)]
    assert codes == ["conversation_already_has_active_response", "item_not_found"]
    assert [entry.role for entry in call.dialogue.entries()] == ["assistant"]


def test_a_client_that_commits_turns_itself_is_answered_when_it_asks(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([(1.0, 3.0)], 7.0), Scene()
    detection = TurnDetection(automatic=False, answer=False)
    leg.requests = [(0.1, ChangeSession(SessionOptions(turn_detection=detection))), (3.2, CommitAudio())]
    call = run_virtual(scene.call(leg))
    assert [entry.text for entry in call.dialogue.entries()] == ["hello"]
    assert leg.played == []
    leg = ScriptedLeg([(1.0, 3.0)], 7.0)
    leg.requests = [
        (0.1, ChangeSession(SessionOptions(turn_detection=detection))),
        (3.2, CommitAudio()),
        (3.6, CreateReply()),
    ]
    run_virtual(Scene().call(leg))
    assert texts(leg) == "Good morning to you."


def test_the_clients_truncation_corrects_what_was_heard(run_virtual: Callable) -> None:
    leg, scene = (
        ScriptedLeg([(1.0, 2.0)], 8.0),
        Scene(chat=FakeChat(words=["One, two,", " three, four", " five six seven."])),
    )

    async def scenario() -> None:
        original = leg.notify

        async def notify(notice: object) -> None:
            await original(notice)
            if isinstance(notice, ReplyStarted):
                leg.requests.append((6.0, TruncateReply(notice.item_id, 0.7)))

        leg.notify = notify
        await scene.call(leg)

    leg.frames = _late_requests(leg)
    run_virtual(scenario())
    assert leg.all(ReplyCut)[-1].text == "One, two"


def _late_requests(leg: ScriptedLeg) -> Callable:
    """Requests that are added while the call runs."""
    plain = leg.frames

    async def frames():
        async for entry in plain():
            yield entry
            time = getattr(entry, "time", None)
            while time is not None and leg.requests and leg.requests[0][0] <= time:
                yield leg.requests.pop(0)[1]

    return frames


def test_cancelling_and_wrong_options_are_told_to_the_client(run_virtual: Callable) -> None:
    leg, scene = ScriptedLeg([], 4.0), Scene(chat=FakeChat(words=[" word"] * 40))
    leg.requests = [
        (0.1, CancelReply()),
        (0.2, ChangeSession(SessionOptions(voice="nobody"))),
        (0.3, ChangeSession(SessionOptions(language="xx"))),
        (0.4, ChangeSession(SessionOptions(voice="other"))),
        (0.5, AddMessage("m1", "user", "Hi")),
        (0.6, CreateReply()),
        (2.0, CancelReply()),
    ]
    run_virtual(scene.call(leg))
    codes = [trouble.code for trouble in leg.all(CallTrouble)]
    assert codes == ["response_cancel_not_active", "invalid_value", "invalid_value"]
    assert leg.all(SessionChanged)[-1].options.voice == "other"
    assert not leg.sounding(2.05)
    assert leg.all(ReplyEnded)[0].reason == "client_cancelled"


def test_a_caller_who_hangs_up_at_any_moment_leaves_nothing_running(run_virtual: Callable) -> None:
    for i in range(1, 40):
        scene, leg = Scene(), ScriptedLeg([(0.5, 1.2)], i * 0.1)
        run_virtual(scene.call(leg))
        assert scene.chat.closed
        assert leg.hung_up


def test_a_fixed_phrase_needs_no_synthesis_in_the_operators_voice(run_virtual: Callable) -> None:
    settings = CallSettings(greeting="Hello! How can I help you?", voice="saved")
    for voice, spoken in (("saved", []), ("other", ["Hello!", "How can I help you?"])):
        leg, scene = ScriptedLeg([], 4.0, greets=True), Scene()
        scene.saved = {settings.greeting: np.full(16_000, 0.3, np.float32)}
        run_virtual(scene.call(leg, replace(settings, voice=voice)))
        assert scene.synthesizer.spoken == spoken
        assert texts(leg) == settings.greeting
