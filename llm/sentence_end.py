"""How likely the caller's words so far are a whole sentence, by what the language model expects to come next.

The prompt is left open behind the caller's last word. Where the model expects the message to end
there, or a full stop, the sentence is whole; where it expects another word, it is not: after "I'd
like a table for" a full stop has a probability of 0.001. The recogniser's own full stop is no
evidence, it writes one behind anything.
"""

import math
import re
from collections.abc import Iterable

_MARKS = " \t\r\n.?!,;:…—–-。？！，；：、"
_END = re.compile(r"\s*([.?!…。？！]|\n|$|<[^<>]*>$)")
"""A mark that ends a sentence, a new line, or nothing: a model's end-of-message token has no text, or one in angles."""


def open_ended(text: str) -> str:
    """The words without the marks behind them."""
    return text.rstrip(_MARKS)


def end_probability(next_tokens: Iterable[tuple[str, float]]) -> float:
    """Probability in [0, 1] that the text ends here, from the likeliest next tokens and their log-probabilities."""
    return min(1.0, sum(math.exp(log) for token, log in next_tokens if _END.match(token)))
