"""Whether an answer belongs to its caller: the server understood what that caller said, and answers as it must."""

from collections.abc import Collection

from loadtest.accuracy import normal
from loadtest.dialogue import Turn

_ALIKE, _UNLIKE = 0.5, 0.2


def is_wrong(turn: Turn, texts: Collection[str]) -> bool:
    """Whether the server mixed callers up, or its answer lacks all of the words that were expected.

    Mixed up: what it understood has half the words of another text of the `texts` that are said, and hardly one of
    what this caller said. Where the protocol tells no texts nothing can be known, and nothing is wrong.
    """
    if turn.expect and turn.answered and not set(normal(" ".join(turn.expect)).split()) & _words(turn.answered):
        return True
    if not turn.understood or _shared(turn.text, turn.understood) > _UNLIKE:
        return False
    return any(_shared(text, turn.understood) >= _ALIKE for text in texts if text != turn.text)


def _words(text: str) -> set[str]:
    return set(normal(text).split())


def _shared(said: str, understood: str) -> float:
    """Share of the said words that were understood."""
    words = _words(said)
    return len(words & _words(understood)) / len(words) if words else 0.0
