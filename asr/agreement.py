"""Which words of a growing hypothesis are settled (LocalAgreement-2, Liu et al. 2020), and where to cut behind them.

Two successive hypotheses over the same audio start agree on a prefix of words: that prefix
rarely changes any more. Pure functions over `Word`s.
"""

import unicodedata

from asr.transcript import Word


def plain(text: str) -> str:
    """A word as compared: case, punctuation and spaces don't count."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if unicodedata.category(c)[0] in "LNM")


def agreed_prefix(before: tuple[Word, ...], now: tuple[Word, ...]) -> int:
    """How many words at the start of `now` the hypothesis `before` had too."""
    count = 0
    for old, new in zip(before, now, strict=False):
        if plain(old.text) != plain(new.text):
            break
        count += 1
    return count


def cut_after(words: tuple[Word, ...], agreed: int, *, earliest: float, latest: float) -> int:
    """How many agreed words to commit so that the cut falls in the widest gap between words.

    Only cuts at `earliest` to `latest` seconds count, so that what stays is neither too long nor
    so short that it lacks context. The end of a sentence counts as 0.3 s more of a gap. Returns 0
    when no cut is worth it.
    """
    best, widest = 0, -1.0
    for i in range(1, min(agreed, len(words) - 1) + 1):
        here, after = words[i - 1], words[i]
        if not earliest <= here.end <= latest:
            continue
        gap = max(0.0, after.start - here.end)
        if here.text.rstrip()[-1:] in ".?!。？！":
            gap += 0.3
        if gap > widest:
            best, widest = i, gap
    return best
