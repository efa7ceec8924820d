"""How likely the caller's words so far are a whole sentence, by what the language model expects to come next.

The model reads them as the beginning of quoted speech. Where it expects a full stop or the closing
quotation mark next, the sentence is whole; where it expects another word, it is not: after "I'd like
a table for" an end has a probability of 0.001. As quoted speech it knows better than as a message in
a chat (area under the curve, with the sound, 0.94 against 0.91: `docs/turns.md`). The recogniser's own
full stop is no evidence, it writes one behind anything.
"""

import math
import re
from collections.abc import Iterable

from llm.prompt import WIDE

_MARKS = " \t\r\n.?!,;:…—–-。？！，；：、"
_END = re.compile(r"\s*([.?!…。？！]|,?[\"”]|\n|$|<[^<>]*>$)")
"""A mark that ends a sentence or the speech, a new line, or nothing: an end token has no text, or one in angles."""
_FEWEST, _STEP = 20, 10
"""Words that are read of a longer turn: what begins it says nothing of its end."""


def open_ended(text: str) -> str:
    """The words without the marks behind them."""
    return text.rstrip(_MARKS)


def judgeable(text: str) -> bool:
    """Whether the words end in a script that the default language model knows well enough."""
    last = text.rstrip()[-1:]
    return bool(last) and ord(last) < WIDE


def quoted(text: str) -> str:
    """The last words as the beginning of quoted speech; the place of the cut stays while ten more are said."""
    words = open_ended(text).split()
    cut = max(0, len(words) - _FEWEST) // _STEP * _STEP
    return '"' + " ".join(words[cut:])


def end_probability(next_tokens: Iterable[tuple[str, float]]) -> float:
    """Probability in [0, 1] that the text ends here, from the likeliest next tokens and their log-probabilities."""
    return min(1.0, sum(math.exp(log) for token, log in next_tokens if _END.match(token)))
