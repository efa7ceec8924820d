"""What callers say."""

from collections import Counter
from pathlib import Path

import numpy as np

from loadtest.dialogue import Deck
from loadtest.recordings import Clip

SAID = [(Clip(name, Path(name), name, 1.0), np.zeros(8, np.float32)) for name in "abcdefg"]


def test_everything_is_said_equally_often_in_an_order_of_the_seed() -> None:
    deck, again, other = Deck(SAID, 1), Deck(SAID, 1), Deck(SAID, 2)
    dealt = [deck.deal()[0].name for _ in range(14)]
    assert set(Counter(dealt).values()) == {2}
    assert dealt == [again.deal()[0].name for _ in range(14)]
    assert dealt != [other.deal()[0].name for _ in range(14)]
