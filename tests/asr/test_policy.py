"""Agreement, guards and the incremental decode policy, without a model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.agreement import agreed_prefix, cut_after
from asr.guards import Judgement, judge, loops, said_once, token_bound
from asr.incremental import DecodeJob, DecodePolicy, IncrementalTranscript
from asr.transcript import Transcript, Word

FRAME = np.zeros(320, np.float32)


def words(text: str, per_word: float = 0.5) -> tuple[Word, ...]:
    return tuple(Word(f" {w}", i * per_word, (i + 0.8) * per_word) for i, w in enumerate(text.split()))


def test_two_hypotheses_agree_up_to_their_first_difference() -> None:
    assert agreed_prefix(words("The quick, brown fox"), words("the quick brown dog runs")) == 3
    assert agreed_prefix((), words("a")) == 0


def test_the_cut_falls_behind_a_sentence_rather_than_inside_one() -> None:
    said = words("one two three. four five six seven eight")
    assert cut_after(said, 6, earliest=0.5, latest=3.0) == 3
    assert cut_after(said, 0, earliest=0.5, latest=3.0) == 0
    assert cut_after(said, 6, earliest=5.0, latest=9.0) == 0


@pytest.mark.parametrize(
    "text",
    [
        "you you you you",
        "BAH! BAH! BAH! BAH! BAH!",
        "so that it so that it so that it so that it",
        "哈哈哈哈哈哈哈哈哈哈",
    ],
)
def test_loops_are_noticed(text: str) -> None:
    assert loops(text)


@pytest.mark.parametrize("text", ["one one nine zero zero zero zero", "no no no", "very, very good", "ha ha"])
def test_people_who_repeat_themselves_are_not_loops(text: str) -> None:
    assert not loops(text)


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("Turn on the living room lamp. Turn on the living room lamp.", "Turn on the living room lamp."),
        ("Turn on the living room lamp. Turn on the living", "Turn on the living room lamp."),
        ("Go forward 10 meters 10 meters 10 meters 10", "Go forward 10 meters"),
        ("three. Three. Three. Three.", "three."),
        ("turn on the lamp in the living room", "turn on the lamp in the living room"),
    ],
)
def test_a_phrase_repeated_faster_than_speech_was_said_once(text: str, once: str) -> None:
    transcript = Transcript(text, tokens=14, truncated=True)
    assert said_once(transcript, 1.2).text == once
    assert said_once(transcript, 6.0) == transcript, "people do repeat themselves"
    noise = Transcript(text, tokens=14, no_speech_probability=0.7)
    assert said_once(noise, 0.4) == noise, "over noise the repetition is the evidence"


def test_what_is_left_of_a_repetition_passes_for_a_whole_transcript() -> None:
    text = "Hello world. " * 6
    looped = Transcript(text, words("Hello world. " * 6), tokens=18, truncated=True)
    once = said_once(looped, 1.0)
    assert [word.text for word in once.words] == [" Hello", " world."]
    assert judge(looped, 1.0, last_try=False).judgement is Judgement.RETRY
    assert judge(once, 1.0, last_try=False).judgement is Judgement.KEEP


def test_invented_phrases_need_weak_evidence_to_be_dropped() -> None:
    weak = Transcript("Thank you.", log_probability=-0.9, no_speech_probability=0.5)
    assert judge(weak, 0.4, last_try=False).judgement is Judgement.DROP
    strong = Transcript("Thank you.", log_probability=-0.2, no_speech_probability=0.05)
    assert judge(strong, 0.6, last_try=False).judgement is Judgement.KEEP


def test_text_cannot_be_longer_than_its_speech() -> None:
    assert token_bound(2.0) == 18
    assert token_bound(2.0, wide=True) == 28
    assert judge(Transcript("x" * 9, truncated=True), 2.0, last_try=False).judgement is Judgement.RETRY


class Speech:
    """Feeds an utterance; decodes by a given text that is spoken one word every half second."""

    def __init__(self, text: str, policy: DecodePolicy | None = None, *, busy: bool = False) -> None:
        self.said, self.busy = words(text), busy
        self.policy = policy or DecodePolicy()
        self.transcript = IncrementalTranscript(0.0, self.policy)
        self.now = 0.0
        self.jobs: list[DecodeJob] = []

    def feed(self, seconds: float, probability: float = 0.9) -> None:
        for _ in range(round(seconds / 0.02)):
            self.transcript.push(FRAME, probability)
            self.now += 0.02
            if probability > 0.5:
                self.transcript.spoke_until(self.now)
                if job := self.transcript.partial_job(busy=self.busy):
                    self.decode(job)

    def decode(self, job: DecodeJob) -> None:
        self.jobs.append(job)
        inside = [w for w in self.said if job.start - 1e-6 <= w.start and w.end <= job.end + 1e-6]
        timed = tuple(Word(w.text, w.start - job.start, w.end - job.start) for w in inside)
        text = "".join(w.text for w in inside)
        self.transcript.complete(job, Transcript(text, timed if job.want_words else ()))

    def pause(self, seconds: float) -> DecodeJob:
        """Fall silent; the final decode that is asked for then."""
        self.feed(seconds, 0.0)
        job = self.transcript.final_job()
        assert job is not None
        return job

    def finish(self) -> str:
        while True:
            job = self.transcript.final_job()
            assert job is not None
            self.decode(job)
            if not job.cut:
                return self.transcript.heard(final=True).text


def numbered(count: int) -> str:
    return " ".join(f"w{i}" for i in range(count))


@pytest.mark.parametrize("seconds", [2, 8, 20, 60, 150])
def test_nothing_is_lost_or_doubled_at_the_seams_however_long_the_speech(seconds: int) -> None:
    speech = Speech(numbered(seconds * 2))
    speech.feed(seconds)
    assert speech.finish() == numbered(seconds * 2)
    assert all(len(job.pcm) / 16_000 <= speech.policy.longest + 0.1 for job in speech.jobs)


def test_the_final_pass_of_a_long_utterance_has_only_the_tail_to_do() -> None:
    speech = Speech(numbered(80))
    speech.feed(40)
    speech.finish()
    assert len(speech.jobs[-1].pcm) / 16_000 < 10


def test_partials_are_fewer_but_nothing_is_lost_while_others_need_the_recogniser() -> None:
    alone, beside = Speech(numbered(24)), Speech(numbered(24), busy=True)
    for speech in (alone, beside):
        speech.feed(12.0)
    assert 2 <= len(beside.jobs) <= len(alone.jobs) / 2
    assert beside.finish() == alone.finish() == numbered(24).strip()


def test_speech_that_goes_on_after_a_real_pause_commits_what_came_before() -> None:
    speech = Speech(numbered(12))
    speech.feed(4.0)
    speech.decode(speech.pause(0.5))
    before = speech.transcript.heard()
    speech.transcript.resumed(speech.now)
    after = speech.transcript.heard()
    assert after.text == before.text
    assert after.committed == len(after.text)


def test_a_result_that_comes_after_the_speech_went_on_is_not_taken_for_the_final_one() -> None:
    speech = Speech(numbered(12))
    speech.feed(2.0)
    job = speech.pause(0.1)
    speech.transcript.resumed(speech.now)
    assert not speech.transcript.complete(job, Transcript("stale"))
    assert "stale" not in speech.transcript.heard().text


def test_what_was_said_before_a_real_pause_is_settled_even_if_its_text_comes_late() -> None:
    speech = Speech(numbered(12))
    speech.feed(4.0)
    job = speech.pause(0.4)
    speech.transcript.resumed(speech.now)
    assert speech.transcript.complete(job, Transcript("the first part"))
    heard = speech.transcript.heard()
    assert (heard.text, heard.committed) == ("the first part", len("the first part"))
    speech.feed(1.0)
    assert all(later.start >= 4.0 for later in speech.jobs if later.id > job.id)


def test_a_sentence_that_a_pause_cut_in_two_is_one_sentence() -> None:
    speech = Speech(numbered(20))
    for part in ("Sunday is the best.", "part of the week.", "Monday is not."):
        speech.feed(3.0)
        job = speech.pause(0.5)
        speech.transcript.complete(job, Transcript(part))
        before = speech.transcript.heard()
        speech.transcript.resumed(speech.now)
        assert before.text.startswith(speech.transcript.heard().text[: before.committed])
    assert speech.transcript.heard().text == "Sunday is the best part of the week. Monday is not."


class Voice:
    """Feeds sound at a level, as a caller's voice with its dips, and says what the policy asks for."""

    def __init__(self) -> None:
        self.transcript = IncrementalTranscript(0.0)
        self.now = 0.0
        self.early: list[DecodeJob] = []

    def feed(self, seconds: float, level: float) -> None:
        for _ in range(round(seconds / 0.02)):
            self.now = round(self.now + 0.02, 2)
            self.transcript.push(np.full(320, level, np.float32), 0.9)
            self.transcript.spoke_until(self.now)
            if job := self.transcript.early_job():
                self.early.append(job)


def test_the_final_decode_begins_at_the_dip_before_the_pause_is_certain() -> None:
    voice = Voice()
    voice.feed(1.5, 0.3)
    voice.feed(0.12, 0.01)
    (job,) = voice.early
    assert job.final
    assert job.end == pytest.approx(1.54)
    assert voice.transcript.final_job() is None, "the decode under way holds everything"
    assert voice.transcript.complete(job, Transcript("all of it"))
    assert voice.transcript.settled
    assert voice.transcript.heard().text == "all of it"


def test_a_decode_begun_at_a_dip_inside_speech_is_not_the_final_one() -> None:
    voice = Voice()
    voice.feed(1.5, 0.3)
    voice.feed(0.06, 0.01)
    (job,) = voice.early
    voice.feed(0.1, 0.3)
    assert voice.transcript.complete(job, Transcript("a part"))
    assert voice.transcript.heard().text == "a part"
    assert not voice.transcript.settled
    final = voice.transcript.final_job()
    assert final is not None
    assert final.end > job.end


def test_speech_too_soft_for_a_dip_but_heard_by_the_vad_is_decoded_again() -> None:
    voice = Voice()
    voice.feed(1.5, 0.3)
    voice.feed(0.6, 0.01)
    assert voice.early
    assert voice.transcript.final_job() is not None


def test_a_cut_between_words_moves_to_the_quietest_moment() -> None:
    transcript = IncrementalTranscript(0.0, DecodePolicy(agree_from=3.0, keep_tail=1.0))
    said = words("zero one two three four. five six seven")
    for i in range(200):
        transcript.push(np.full(320, 0.0 if i == 121 else 0.3, np.float32), 0.9)
    transcript.spoke_until(4.0)
    for _ in range(2):
        job = transcript.partial_job()
        assert job is not None
        transcript.complete(job, Transcript("".join(w.text for w in said), said))
        for _ in range(40):
            transcript.push(FRAME, 0.9)
    after = transcript.final_job()
    assert after is not None
    assert after.start == pytest.approx(2.43, abs=0.011)


def test_audio_that_was_not_decoded_at_once_is_decoded_in_pieces() -> None:
    transcript = IncrementalTranscript(0.0)
    for _ in range(round(70 / 0.02)):
        transcript.push(FRAME, 0.9)
    transcript.spoke_until(70.0)
    ends, job = [], transcript.final_job()
    while job.cut:
        ends.append(job.end)
        transcript.complete(job, Transcript("x"))
        job = transcript.final_job()
    assert len(ends) >= 2
    assert job.end == pytest.approx(70.0, abs=0.1)


@given(st.lists(st.tuples(st.floats(0.02, 6), st.booleans()), min_size=1, max_size=12))
def test_committed_text_never_changes(pattern: list[tuple[float, bool]]) -> None:
    speech = Speech(numbered(200))
    committed = ""
    for seconds, voiced in pattern:
        speech.feed(seconds, 0.9 if voiced else 0.1)
        if not voiced:
            speech.decode(speech.transcript.final_job())
            speech.transcript.resumed(speech.now)
        heard = speech.transcript.heard()
        assert heard.text[: heard.committed].startswith(committed)
        committed = heard.text[: heard.committed]


def test_a_word_cut_in_two_is_not_said_twice() -> None:
    transcript = IncrementalTranscript(0.0, DecodePolicy(agree_from=3.0, keep_tail=1.0))
    said = words("zero one two three four five six seven eight nine")
    for _ in range(200):
        transcript.push(FRAME, 0.9)
    transcript.spoke_until(4.0)
    for _ in range(2):
        job = transcript.partial_job()
        assert job is not None
        transcript.complete(job, Transcript("".join(w.text for w in said[:8]), said[:8]))
        for _ in range(40):
            transcript.push(FRAME, 0.9)
    committed = transcript.heard().text[: transcript.heard().committed]
    assert committed
    last = committed.split()[-1]
    transcript.spoke_until(5.6)
    job = transcript.final_job()
    transcript.complete(job, Transcript(f" {last} and more"))
    assert transcript.heard(final=True).text == f"{committed} and more"
