"""What the words at a pause say about whether the caller is done, and whether they are a mere listener's noise.

A recogniser writes a full stop behind anything, so marks count only where they say "more": a
comma, a dash, an ellipsis. Pure functions of the transcript.
"""

import itertools
import re
from enum import Enum


class Wording(Enum):
    """How the words so far end."""

    OPEN = "open"
    """On a word that wants another: "and", "the", "um"."""
    COUNTING = "counting"
    """In the middle of figures, as a number is read out."""
    NEUTRAL = "neutral"
    CLOSED = "closed"
    """On what is an answer by itself: "yes", "thank you"."""


_OPEN = frozenset(
    """
    a an the and or but so because if when while that which who whose whom what where why how than then as of in on
    at to for from with by about into onto over between through during before after without within against among is
    are was were am be been being have has had do does did will would can could should shall may might must i he she
    we they it's i'm you're we're they're i'd i'll my your his her our their its these those some any every each no
    not um uh uhm er erm hmm like just very more most many such also
    """.split()
)
_CLOSED = frozenset(
    """
    yes yeah yep no nope ok okay sure right thanks bye goodbye hello hi correct please stop cancel none nothing
    """.split()
)
"""Answers of one word."""
_WIDE_OPEN = tuple("的 和 跟 与 或 把 被 在 是 从 向 对 给 但是 因为 所以 如果 然后 还有 那个 这个 就是 嗯 呃".split())
_DIGITS = frozenset("zero oh one two three four five six seven eight nine".split())
_NUMBER = 3
"""Figures at the end from which on a number is being read out."""
_TRAILS = re.compile(r"(\.\.\.|[…,;:—–，、；：]|-)\s*$")
_YEAR = re.compile(r"1[0-9]{3}|20[0-9]{2}")
_WORD = re.compile(r"[\w']+")


def wording(text: str) -> Wording:
    """How the caller's words so far end."""
    words = _WORD.findall(text.lower())
    if not words:
        return Wording.NEUTRAL
    if len(words) <= 2 and words[-1] in _CLOSED:
        return Wording.CLOSED
    if _figures(words) >= _NUMBER:
        return Wording.COUNTING
    wide = text.rstrip(" 。，、.,")
    if _TRAILS.search(text) or words[-1] in _OPEN or wide.endswith(_WIDE_OPEN):
        return Wording.OPEN
    return Wording.NEUTRAL


def _figures(words: list[str]) -> int:
    """How many figures the words end in, written or spoken; a year counts as none."""
    run = list(itertools.takewhile(lambda word: word.isdigit() or word in _DIGITS, reversed(words)))
    if len(run) == 1 and _YEAR.fullmatch(run[0]):
        return 0
    return sum(len(word) if word.isdigit() else 1 for word in run)


_LISTENING = frozenset(
    """
    mm mmm mhm mmhm mmhmm mm-hm hm hmm uh uhhuh huh ah aha oh ooh wow yeah yep yes ok okay right sure really cool nice
    great alright good exactly true gotcha i see got it of course 嗯 哦 啊 对 好 好的 是 是的 嗯嗯
    """.split()
)
_LONGEST_LISTENING = 3
"""Words."""


def backchannel(text: str) -> bool:
    """Whether these words, said over the agent, only show that the caller listens: "mm-hm", "okay, right", "I see"."""
    words = _WORD.findall(text.lower().replace("-", ""))
    return 0 < len(words) <= _LONGEST_LISTENING and all(word in _LISTENING for word in words)
