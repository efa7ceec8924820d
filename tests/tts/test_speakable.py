import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts.speakable import speakable


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("This is **bold** and *italic*.", "This is bold and italic."),
        ("- one item", "one item"),
        ("# Heading", "Heading"),
        ("Press `Enter` now", "Press Enter now"),
        ("```py\nprint(1)\n```", ""),
        ("```py\nnever closed", ""),
        ("😀🎉", ""),
        ("Well done 🎉!", "Well done!"),
        ("[our site](https://example.com/x)", "our site"),
        ("See https://www.example.com/a/b?c=1.", "See example dot com."),
        ("Dr. Smith and Mr. Jones", "Doctor Smith and Mister Jones"),
        ("at 5 p.m. today", "at 5 p m today"),
        ("about 1,000 people", "about 1000 people"),
        ("8,848.86 m", "8848 point 8 6 m"),
        ("22,1 °C", "22 point 1 degrees Celsius"),
        ("3.50 GHz", "3 point 5 0 gigahertz"),
        ("$3.5", "3 point 5 dollars"),
        ("v1.0.0", "version 1 point 0 point 0"),
        ("Dial 5550123456.", "Dial 5 5 5 0 1 2 3 4 5 6."),
        ("some 12,345,678 of them", "some 12345678 of them"),
        ("50%", "50 percent"),
        ("snake_case_name", "snake case name"),
        ("Here is the code:", "Here is the code."),
        ("J.K. Rowling", "J K Rowling"),
        ("|a|b|", ", a, b,"),
        ("--", ""),
    ],
)
def test_what_a_person_would_say(written: str, said: str) -> None:
    assert speakable(written) == said


def test_chinese_keeps_its_numbers_and_marks() -> None:
    assert speakable("今天23.5度。", "zh") == "今天23.5度。"
    assert speakable("价格是１，０００円。", "zh") == "价格是1000円。"


@given(st.text(max_size=200))
def test_nothing_breaks_it_and_it_stays_on_one_line(text: str) -> None:
    said = speakable(text)
    assert "\n" not in said
    assert not said or any(c.isalnum() for c in said)
    assert "`" not in said
