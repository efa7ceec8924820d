"""Clause splitting fed one character at a time, as a model streams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts.clauses import ClauseLimits, ClauseSplitter

PLAIN = ClauseLimits(first=10, later=40, longest=160, first_words=99, most_first_words=99)


def split(text: str, limits: ClauseLimits = PLAIN, size: int = 1) -> list[str]:
    splitter = ClauseSplitter(limits)
    clauses = [c for i in range(0, len(text), size) for c in splitter.feed(text[i : i + size])]
    return clauses + splitter.flush()


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("I think 3.14 is pi. Yes.", ["I think 3.14 is pi.", " Yes."]),
        ("It is $3.5 now! Buy.", ["It is $3.5 now!", " Buy."]),
        ("It is 8,848.86 m high. Really.", ["It is 8,848.86 m high.", " Really."]),
        ("It is 22,1 °C today. Nice.", ["It is 22,1 °C today.", " Nice."]),
        ("Ask Dr. Smith. He knows.", ["Ask Dr. Smith.", " He knows."]),
        ("J.K. Rowling wrote it. Yes.", ["J.K. Rowling wrote it.", " Yes."]),
        ("Come at 5 p.m. Then we eat.", ["Come at 5 p.m.", " Then we eat."]),
        ("Come at 5 p.m. on Monday.", ["Come at 5 p.m. on Monday."]),
        ("Use v1.0.0 now. Fine.", ["Use v1.0.0 now.", " Fine."]),
        ("See https://a.example/b.c?d=1,2 now. Ok.", ["See https://a.example/b.c?d=1,2 now.", " Ok."]),
        ("Take e.g. apples. Good.", ["Take e.g. apples.", " Good."]),
        ('He said "no." Then left.', ['He said "no."', " Then left."]),
        ("Wait... what? Yes!", ["Wait...", " what?", " Yes!"]),
        ("今天23.5度。你好！好吗？", ["今天23.5度。", "你好！", "好吗？"]),
        ("价格是１，０００円。好；再见", ["价格是１，０００円。", "好；", "再见"]),
        ("1. Boil water\n2. Add tea\n", ["1. Boil water\n", "2. Add tea\n"]),
        ("100020003000400050", ["1000", "2000", "3000", "400050"]),
        ("1,0001,90210,01803,1,0001", ["1,000", "1,902", "10,01803,1,0001"]),
        ("1,000,000,000,000 stars. Ok.", ["1,000,000,000,000 stars.", " Ok."]),
        ("Call 5550123456 now. Ok.", ["Call 5550123456 now.", " Ok."]),
        ("**Bold.** Then more.", ["**Bold.**", " Then more."]),
        ("Well, certainly, yes.", ["Well, certainly,", " yes."]),
        ("Here:\n```py\nx = 1. \ny()\n```\nDone. Ok.", ["Here:\n", "```py\nx = 1. \ny()\n```", "\nDone.", " Ok."]),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_clauses_end_where_a_speaker_would_pause(text: str, clauses: list[str], size: int) -> None:
    assert split(text, size=size) == clauses


def test_the_first_clause_is_short_so_that_it_is_spoken_soon() -> None:
    text = "The quick brown fox jumps over the lazy dog and runs away from it. Then it sleeps."
    clauses = split(text, ClauseLimits())
    assert clauses[0] == "The quick brown "
    assert len(clauses) == 3


def test_text_without_any_mark_is_cut_at_a_space() -> None:
    clauses = split("word " * 100)
    assert len(clauses) > 2
    assert all(len(clause) <= 170 for clause in clauses)


@given(st.text(max_size=300), st.integers(1, 50))
def test_the_clauses_joined_are_the_text(text: str, size: int) -> None:
    joined = "".join(split(text, size=size))
    assert joined.replace("\n", "").strip() == text.replace("\n", "").strip() or joined.split() == text.split()


@given(st.text(alphabet="ab .,!?\n`。，3", max_size=80), st.integers(1, 9))
def test_the_size_of_the_deltas_does_not_matter(text: str, size: int) -> None:
    assert split(text, size=size) == split(text, size=1)


def test_a_clause_that_grows_too_long_is_cut_where_a_speaker_may_take_breath() -> None:
    limits = ClauseLimits(first=10, later=40, longest=60, first_words=99, most_first_words=99)
    text = "The old harbour town had seen many quiet winters before the trains came back again and stayed"
    clauses = ClauseSplitter(limits).feed(text)
    assert clauses == ["The old harbour town had seen many quiet winters "]
    assert ClauseSplitter(limits).feed("word " * 14) == ["word " * 12]
