"""Scripts: what is taken, and what is said of mistakes."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.recordings import Clip, chosen
from loadtest.script import FOLDER, Ask, Script, ScriptError, parse, read


@pytest.mark.parametrize("name", [path.stem for path in FOLDER.glob("*.toml")])
def test_the_scripts_that_come_along_can_be_read(name: str) -> None:
    assert read(name).name == name


def test_a_script_says_how_a_caller_behaves() -> None:
    text = 'think = [1, 2]\ninterrupts = 0.5\nsays = ["a*"]\n[[ask]]\nfile = "sum"\nexpect = ["four", "4"]\n'
    script = parse(text, "mine", "mine.toml")
    assert script == Script("mine", ("a*",), think=(1, 2), interrupts=0.5, ask=(Ask("sum", ("four", "4")),))


def test_a_weight_stands_behind_the_name() -> None:
    assert read("silent:3").weight == 3


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("thinks = [1, 2]", "line 1", "no setting thinks"),
        ("\n\nthink = [2, 1]", "line 3", "least first"),
        ("interrupts = 2", "line 1", "0 to 1"),
        ("interrupts = true", "line 1", "0 to 1"),
        ('silent = "yes"', "line 1", "true or false"),
        ("says = []", "line 1", "list of texts"),
        ("silent = false\n[[ask]]\nexpect = ['a']", "line 2", "must have a file"),
        ("think = [1,", "line 1", "Invalid"),
    ],
)
def test_a_mistake_is_said_with_its_line(text: str, line: str, word: str) -> None:
    with pytest.raises(ScriptError, match=word) as error:
        parse(text, "mine", "mine.toml")
    assert line in str(error.value)
    assert str(error.value).startswith("mine.toml")


def test_an_unknown_script_tells_which_there_are() -> None:
    with pytest.raises(ScriptError, match="dialogue"):
        read("monologue")


@given(st.text())
def test_whatever_is_in_the_file_is_a_script_or_a_script_error(text: str) -> None:
    with contextlib.suppress(ScriptError):
        parse(text, "any", "any.toml")


def clip(name: str, seconds: float) -> Clip:
    return Clip(name, Path(f"{name}.flac"), "words", seconds)


def test_a_script_chooses_by_length_and_name() -> None:
    clips = [clip("yes", 0.5), clip("story", 5.0), clip("yesterday", 5.0)]
    assert [c.name for c in chosen(Script("all", seconds=(0, 9)), clips)] == ["yes", "story", "yesterday"]
    assert [c.name for c in chosen(Script("long", ("yes*",)), clips)] == ["yesterday"]
    assert chosen(Script("ask", ask=(Ask("story", ("end",)),)), clips)[0].expect == ("end",)
    assert [c.name for c in chosen(Script("but", skips=("st*",), seconds=(0, 9)), clips)] == ["yes", "yesterday"]
    assert chosen(Script("mute", silent=True), clips) == []


@pytest.mark.parametrize("script", [Script("none", ("no*",)), Script("gone", ask=(Ask("gone"),))])
def test_nothing_to_say_is_an_error(script: Script) -> None:
    with pytest.raises(ValueError, match=script.name):
        chosen(script, [clip("yes", 2.0)])
