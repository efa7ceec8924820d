"""How long before the end of a chosen wait an answer is begun: as long as its first sound takes on this machine now.

Alone on the machine that is a quarter of a second; beside five other calls 0.35 s, by which every answer
after a longer wait would be late. Begun too soon, more of the work is thrown away when the caller goes on.
"""

LEAST, MOST = 0.25, 0.45
_MARGIN = 1.1
_FADES = 0.9


class HeadStart:
    """One for the process: the mean of the last ten or so answers, and a little more."""

    def __init__(self) -> None:
        self._mean = LEAST / _MARGIN

    @property
    def seconds(self) -> float:
        """Seconds before the end of the wait."""
        return min(MOST, max(LEAST, self._mean * _MARGIN))

    def seen(self, took: float) -> None:
        """From the model's start to the first sound of an answer it took so long (seconds)."""
        self._mean = _FADES * self._mean + (1 - _FADES) * max(0.0, took)
