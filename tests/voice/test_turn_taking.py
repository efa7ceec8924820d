"""Turn taking by events: no audio, no clock, no tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.turn_taking import (
    AbandonTurn,
    Agent,
    AgentAsked,
    AgentDone,
    AgentHeard,
    Apologise,
    BeginTurn,
    CallerFellSilent,
    CallerInsists,
    CallerSpoke,
    CommitTurn,
    ContinueTurn,
    DropReply,
    HoldReply,
    Interrupt,
    Phase,
    PrepareReply,
    Recognise,
    Recognised,
    RecognitionFailed,
    ResumeReply,
    TurnOver,
    TurnTaking,
)

HEARD, NOTHING = Recognised(empty=False), Recognised(empty=True)


def steps(talk: TurnTaking, *events: object) -> list[object]:
    return [command for event in events for command in talk.step(event)]


def test_a_turn_is_prepared_at_the_pause_and_committed_at_the_endpoint() -> None:
    talk = TurnTaking()
    assert steps(talk, CallerSpoke(1.0)) == [BeginTurn(1.0)]
    assert steps(talk, CallerFellSilent(2.0)) == [Recognise(2.0)]
    assert steps(talk, HEARD) == [PrepareReply()]
    assert steps(talk, TurnOver()) == [CommitTurn()]
    assert (talk.phase, talk.agent) == (Phase.LISTENING, Agent.ABOUT_TO_SPEAK)


def test_a_recogniser_slower_than_the_endpoint_only_delays_the_answer() -> None:
    talk = TurnTaking()
    assert steps(talk, CallerSpoke(1.0), CallerFellSilent(2.0), TurnOver()) == [BeginTurn(1.0), Recognise(2.0)]
    assert steps(talk, HEARD) == [PrepareReply(), CommitTurn()]


def test_speech_that_goes_on_in_the_pause_drops_the_prepared_answer_unheard() -> None:
    talk = TurnTaking()
    steps(talk, CallerSpoke(1.0), CallerFellSilent(2.0), HEARD)
    assert steps(talk, CallerSpoke(2.3)) == [DropReply(), ContinueTurn(2.3)]
    assert steps(talk, CallerFellSilent(3.0), HEARD, TurnOver()) == [Recognise(3.0), PrepareReply(), CommitTurn()]


def test_speech_before_the_first_sound_of_the_answer_takes_it_back_and_stays_one_turn() -> None:
    talk = TurnTaking()
    steps(talk, CallerSpoke(1.0), CallerFellSilent(2.0), HEARD, TurnOver())
    assert steps(talk, CallerSpoke(2.6)) == [DropReply(), ContinueTurn(2.6)]


def heard() -> TurnTaking:
    """A call in which an answer is heard since 3.0."""
    talk = TurnTaking()
    steps(talk, CallerSpoke(1.0), CallerFellSilent(2.0), HEARD, TurnOver(), AgentHeard(3.0))
    return talk


def test_words_over_a_heard_answer_stop_it_at_once_and_then_end_it() -> None:
    talk = heard()
    assert steps(talk, CallerSpoke(4.0)) == [HoldReply(), BeginTurn(4.0)]
    assert steps(talk, CallerFellSilent(4.5)) == [Recognise(4.5)]
    assert steps(talk, HEARD) == [Interrupt(), PrepareReply()]
    assert steps(talk, TurnOver()) == [CommitTurn()]


def test_speech_that_lasts_ends_the_answer_before_its_words_are_known() -> None:
    talk = heard()
    assert steps(talk, CallerSpoke(4.0), CallerInsists()) == [HoldReply(), BeginTurn(4.0), Interrupt()]
    assert talk.agent is Agent.SILENT
    assert steps(talk, CallerInsists()) == []


@pytest.mark.parametrize("result", [NOTHING, Recognised(empty=False, backchannel=True), RecognitionFailed()])
def test_a_sound_or_a_backchannel_over_the_answer_lets_it_go_on(result: object) -> None:
    talk = heard()
    steps(talk, CallerSpoke(4.0), CallerFellSilent(4.3))
    assert steps(talk, result) == [AbandonTurn(), ResumeReply()]
    assert (talk.phase, talk.agent) == (Phase.LISTENING, Agent.HEARD)
    assert steps(talk, TurnOver()) == []
    assert steps(talk, CallerSpoke(6.0)) == [HoldReply(), BeginTurn(6.0)], "and it can be interrupted again"


def test_a_backchannel_while_the_agent_is_silent_is_a_turn() -> None:
    talk = TurnTaking()
    steps(talk, CallerSpoke(1.0), CallerFellSilent(1.3))
    assert steps(talk, Recognised(empty=False, backchannel=True)) == [PrepareReply()]
    assert steps(talk, TurnOver()) == [CommitTurn()]


@pytest.mark.parametrize("after", [0.0, 0.1, 0.2, 0.3])
def test_speech_in_the_first_moments_of_an_answer_takes_it_back_into_one_turn(after: float) -> None:
    assert steps(heard(), CallerSpoke(3.0 + after)) == [DropReply(), ContinueTurn(3.0 + after)]


def test_speech_in_the_first_moments_of_a_greeting_is_an_interruption() -> None:
    talk = TurnTaking()
    assert steps(talk, AgentAsked(), AgentHeard(0.5), CallerSpoke(0.6)) == [HoldReply(), BeginTurn(0.6)]


def test_speech_before_an_unasked_greeting_is_heard_begins_a_turn_of_its_own() -> None:
    talk = TurnTaking()
    steps(talk, AgentAsked())
    assert steps(talk, CallerSpoke(0.5)) == [DropReply(), BeginTurn(0.5)]


def test_noise_that_holds_no_words_is_no_turn() -> None:
    talk = TurnTaking()
    steps(talk, CallerSpoke(1.0), CallerFellSilent(1.2))
    assert steps(talk, NOTHING) == []
    assert steps(talk, TurnOver()) == [AbandonTurn()]
    steps(talk, CallerSpoke(2.0), CallerFellSilent(2.2), TurnOver())
    assert steps(talk, NOTHING) == [AbandonTurn()]
    assert talk.agent is Agent.SILENT


def test_a_broken_recogniser_is_said_to_the_caller_and_the_call_goes_on() -> None:
    talk = TurnTaking()
    steps(talk, CallerSpoke(1.0), CallerFellSilent(2.0))
    assert steps(talk, RecognitionFailed()) == [AbandonTurn(), Apologise()]
    assert steps(talk, CallerSpoke(3.0)) == [BeginTurn(3.0)]


def test_an_agent_that_may_not_be_interrupted_is_not() -> None:
    talk = TurnTaking(interruptible=False)
    steps(talk, AgentAsked(), AgentHeard(3.0))
    assert steps(talk, CallerSpoke(1.0)) == []
    assert steps(talk, AgentDone(), CallerSpoke(3.0)) == [BeginTurn(3.0)]


def test_without_automatic_answers_a_turn_is_only_committed() -> None:
    talk = TurnTaking(answers=False)
    steps(talk, CallerSpoke(1.0), CallerFellSilent(2.0))
    assert steps(talk, HEARD) == []
    assert steps(talk, TurnOver()) == [CommitTurn()]


EVENTS = st.sampled_from(
    [
        CallerSpoke(1.0),
        CallerFellSilent(1.5),
        CallerInsists(),
        TurnOver(),
        HEARD,
        Recognised(empty=False, backchannel=True),
        NOTHING,
        RecognitionFailed(),
        AgentHeard(3.0),
        AgentDone(),
        AgentAsked(),
    ]
)


@given(st.lists(EVENTS, max_size=40), st.booleans(), st.booleans())
def test_in_any_order_of_events_a_turn_that_ends_began_and_an_answer_follows_words(
    events: list[object], interruptible: bool, answers: bool
) -> None:
    talk = TurnTaking(interruptible=interruptible, answers=answers)
    open_turn = held = False
    for event in events:
        for command in talk.step(event):
            if isinstance(command, BeginTurn | ContinueTurn):
                open_turn = True
            elif isinstance(command, AbandonTurn):
                assert open_turn
                open_turn = False
            elif isinstance(command, CommitTurn):
                assert open_turn
            elif isinstance(command, PrepareReply):
                assert answers
                assert open_turn
            elif isinstance(command, Apologise):
                assert isinstance(event, RecognitionFailed)
            elif isinstance(command, HoldReply):
                assert not held
                held = True
            elif isinstance(command, ResumeReply | Interrupt):
                assert held
                held = False
        held = held and not isinstance(event, AgentDone | AgentAsked | AgentHeard)
