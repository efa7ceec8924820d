"""What counts as the beginning of an answer."""

from loadtest.latency import answers_begin


def test_an_answer_begins_with_the_first_sound_after_the_caller_ended() -> None:
    assert answers_begin([1.0, 1.01, 5.4, 5.41], ended=5.0) == 5.4
    assert answers_begin([1.0], ended=5.0) is None
    assert answers_begin([], ended=5.0) is None


def test_agent_audio_that_was_sounding_when_the_caller_ended_is_no_answer() -> None:
    sounding = [4.9 + i * 0.01 for i in range(20)]
    assert answers_begin(sounding, ended=5.0) is None
    assert answers_begin([*sounding, 5.6], ended=5.0) == 5.6
