"""How long before the end of a chosen wait an answer is begun: as long as nearly all first sounds take here and now.

Alone on the machine that is a quarter of a second; beside five other calls a third of it on the
average and half a second at times, by which the answers after a longer wait would be late. Begun too
soon, more of the work is thrown away when the caller goes on.
"""

LEAST, MOST = 0.25, 0.6
_DEVIATIONS = 2.0
_FADES = 0.9


class HeadStart:
    """One for the process. The mean of the last ten or so answers and two of their mean deviations.

    So are retransmissions timed in TCP (RFC 6298), for the same reason: the mean would be too short half the time.
    """

    def __init__(self) -> None:
        self._mean, self._deviation = LEAST / 2, 0.0

    @property
    def seconds(self) -> float:
        """Seconds before the end of the wait."""
        return min(MOST, max(LEAST, self._mean + _DEVIATIONS * self._deviation))

    def seen(self, took: float) -> None:
        """From the model's start to the first sound of an answer it took so long (seconds)."""
        bounded = min(2 * MOST, max(0.0, took))
        self._deviation = _FADES * self._deviation + (1 - _FADES) * abs(bounded - self._mean)
        self._mean = _FADES * self._mean + (1 - _FADES) * bounded
