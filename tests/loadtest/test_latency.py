"""What counts as the beginning of an answer."""

import numpy as np

from loadtest.latency import answers_begin, speech_span


def test_an_answer_begins_with_the_first_sound_after_the_caller_ended() -> None:
    assert answers_begin([1.0, 1.01, 5.4, 5.41], ended=5.0) == 5.4
    assert answers_begin([1.0], ended=5.0) is None
    assert answers_begin([], ended=5.0) is None


def test_agent_audio_that_was_sounding_when_the_caller_ended_is_no_answer() -> None:
    sounding = [4.4 + i * 0.01 for i in range(100)]
    assert answers_begin(sounding, ended=5.0) is None
    assert answers_begin([*sounding, 5.8], ended=5.0) == 5.8


def test_an_answer_may_begin_in_the_caller_s_last_breath_if_it_goes_on() -> None:
    sounding = [4.95 + i * 0.01 for i in range(60)]
    assert answers_begin(sounding, ended=5.0) == 4.95
    assert answers_begin(sounding[:20], ended=5.0) is None, "it gave way: the caller was not done"


def test_speech_ends_with_its_last_sound_but_not_with_a_click_behind_it() -> None:
    pcm = np.zeros(8000, np.float32)
    pcm[1600:4000] = 0.5
    pcm[4800:4960] = 0.3
    assert speech_span(pcm) == (800, 4960), "a soft last consonant belongs to the word"
    pcm[7200:7360] = 0.3
    assert speech_span(pcm) == (800, 4960), "a click 0.3 s later does not"
