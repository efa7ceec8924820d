"""Cuts a stream of text into clauses that can be spoken on their own, as early as it is safe.

Pure and incremental: feed deltas of any size, get whole clauses. A mark ends a clause only once
the character after it is known, so that 3.14, "22,1 °C", v1.0.0, a URL or １，０００円 is never
torn; "Dr." and "J.K." don't end sentences; code blocks are left out as one silent clause.
"""

import re
from dataclasses import dataclass, replace

ABBREVIATIONS = frozenset(
    """
    dr mr mrs ms prof sr jr st vs fig approx dept est inc ltd co corp gen sen rep rev hon capt col
    e.g i.e cf al z.b bzw usw ca nr str
    """.split()
)
"""Lower-case words whose full stop doesn't end a sentence."""
_SOMETIMES = frozenset(["a.m", "p.m", "etc", "u.s", "u.k"])
"""Their full stop ends the sentence when a capital follows."""
_HARD, _SOFT = ".!?…", ",;:—–"
_WIDE_HARD, _WIDE_SOFT = "。！？；", "，、："
_CLOSERS = "\"'”’)]}»*_`」』）】"
_FENCE = "```"
_FIGURE = re.compile(r"\s*(?:\d{4}(?=\d{6})|(?:\d[-,.]?){4}(?=(?:\d[-,.]?){10}))")
"""Of a figure that goes on and on (a telephone number, a model that repeats itself) so much is a clause."""
_LINKING = frozenset(
    """
    and but or so because that which who where when while if as to of in on at for from with by about into over
    under between through during before after than like
    """.split()
)
"""Words before which a speaker may take breath."""


@dataclass(frozen=True)
class ClauseLimits:
    """When a comma is enough, in characters (a wide character counts as three).

    The first clause is cut at the first comma, so that it is spoken soon, and without one before a
    linking word after `first_words` words, or after `most_first_words`. Later ones are longer, since
    they sound better and there is audio to hide behind. What is longer than `longest` is cut before a
    linking word, or at a space: a voice's time and memory grow with the clause.
    """

    first: int = 10
    later: int = 40
    longest: int = 100
    first_words: int = 2
    most_first_words: int = 3


def first_clause(share: float) -> ClauseLimits:
    """Limits that cut the first clause to this share of its usual words: spoken sooner, with a break sooner."""
    usual = ClauseLimits()
    words = max(1, round(usual.most_first_words * share))
    return replace(usual, first_words=min(usual.first_words, words), most_first_words=words)


class ClauseSplitter:
    """One reply's text on its way to the voice. The clauses joined are exactly the text fed."""

    def __init__(self, limits: ClauseLimits | None = None) -> None:
        self._limits = limits or ClauseLimits()
        self._text = ""
        self._spoken_any = False

    def feed(self, delta: str) -> list[str]:
        """Append text; return the clauses that it completed."""
        self._text += delta
        clauses: list[str] = []
        while end := self._end():
            clauses.append(self._take(end))
        return clauses

    def flush(self) -> list[str]:
        """The rest, at the end of the stream: one clause, or none if only blanks remain."""
        clauses = self.feed("\n") if self._text.strip() else []
        if clauses:
            clauses[-1] = clauses[-1].rstrip("\n") if not self._text else clauses[-1]
        if self._text.strip():
            clauses.append(self._text.rstrip("\n"))
        self._text = ""
        return [clause for clause in clauses if clause.strip()]

    def _take(self, end: int) -> str:
        clause, self._text = self._text[:end], self._text[end:]
        self._spoken_any = self._spoken_any or any(c.isalnum() for c in clause)
        return clause

    def _end(self) -> int:
        """Where the first clause ends in the text so far; 0 if that isn't certain yet."""
        text = self._text
        fence = text.find(_FENCE)
        if fence == 0:
            close = text.find(_FENCE, 3)
            return close + 3 if close > 0 else 0
        if figure := _FIGURE.match(text):
            return figure.end()
        limit = fence if fence > 0 else len(text)
        for i in range(limit):
            if end := self._boundary(i, limit):
                return end
        if fence > 0 and text[:fence].strip():
            return fence
        if not self._spoken_any and fence < 0 and (end := self._first_breath()):
            return end
        if self._width(limit) > self._limits.longest and fence < 0:
            return self._late_breath(min(limit, self._limits.longest)) or (
                limit if limit > 2 * self._limits.longest else 0
            )
        return 0

    def _late_breath(self, limit: int) -> int:
        """Where a clause that grew too long is cut: before the last linking word of its second half, or at a space."""
        words = [word for word in re.finditer(r"\S+", self._text[:limit]) if word.start()][:-1]
        linking = [word.start() for word in words if word.group().lower() in _LINKING and word.start() > limit // 2]
        return linking[-1] if linking else self._text.rfind(" ", 1, limit) + 1

    def _first_breath(self) -> int:
        """Where the very first clause may be cut without a mark: before a linking word, or when it grows long."""
        words = list(re.finditer(r"\S+\s+", self._text))
        for count, word in enumerate(words):
            linking = count >= self._limits.first_words and word.group().strip().lower() in _LINKING
            if linking or count >= self._limits.most_first_words:
                return word.start()
        return 0

    def _boundary(self, i: int, limit: int) -> int:
        """The end of the clause if the character at `i` ends one, else 0."""
        text, mark = self._text, self._text[i]
        if mark == "\n":
            return i + 1 if text[:i].strip() else 0
        if mark not in _HARD + _SOFT + _WIDE_HARD + _WIDE_SOFT:
            return 0
        after = i + 1
        while after < limit and text[after] in _CLOSERS + _HARD + "！？":
            after += 1
        if after >= limit and limit == len(text):
            return 0
        follows = text[after] if after < len(text) else "\n"
        if mark in _WIDE_HARD:
            return after
        if mark in _WIDE_SOFT:
            inside_number = text[i - 1 : i].isdigit() and follows.isdigit()
            return after if not inside_number and self._long_enough(i) else 0
        if not follows.isspace():
            return 0
        if mark in _SOFT:
            return after if self._long_enough(i) else 0
        return after if self._ends_sentence(i, after) else 0

    def _ends_sentence(self, i: int, after: int) -> bool:
        """Whether the full stop, question or exclamation mark at `i` ends a sentence."""
        text = self._text
        if text[i] != ".":
            return True
        word = re.split(r"[\s(\"“]", text[:i])[-1].lower()
        if word in ABBREVIATIONS or (re.fullmatch(r"([a-z]\.)*[a-z]", word) and word not in _SOMETIMES | {"i"}):
            return False
        at_line_start = text[:i].rsplit("\n", 1)[-1].strip() == word
        if word.isdigit() and at_line_start:
            return False
        if word not in _SOMETIMES | {"no"}:
            return True
        upcoming = text[after:].lstrip()[:1]
        if not upcoming:
            return text[after] == "\n"
        return not upcoming.isdigit() if word == "no" else upcoming.isupper()

    def _long_enough(self, i: int) -> bool:
        return self._width(i) >= (self._limits.later if self._spoken_any else self._limits.first)

    def _width(self, end: int) -> int:
        return sum(3 if ord(c) >= 0x2E80 else 1 for c in self._text[:end].strip())
