"""The capacity search: grows until the target breaks, bisects, and repeats the edge. Knows no clock and no server."""

import math


class Search:
    """Asks for numbers of calls by `next` and is told by `saw` whether the target held there.

    It begins with `first`. A number that held is the answer only once it has been tried twice and held in all that
    was seen there: a single step is luck at the edge.
    """

    def __init__(self, most: int = 256, *, first: int = 1) -> None:
        self._first = first
        self.best = 0
        """Most calls at which the target held; none broke below."""
        self._broke = most + 1
        self._repeated = False

    def next(self) -> int | None:
        """The number of calls to try now; None once the answer is known."""
        if self._broke - self.best > 1:
            grown = max(self._first if self.best == 0 else self.best + 1, math.ceil(self.best * 1.5))
            return grown if grown < self._broke else (self.best + self._broke) // 2
        return None if self._repeated or self.best == 0 else self.best

    def saw(self, calls: int, held: bool) -> None:
        """Take the result of a step."""
        again = calls == self.best
        if not held:
            self._broke, self.best = min(self._broke, calls), min(self.best, calls - 1)
            self._repeated = False
        elif again:
            self._repeated = True
        else:
            self.best = max(self.best, calls)
