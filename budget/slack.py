"""Whether answers come in time: the slack of the last turns, and when it says that no more calls fit.

Slack is what was left of the target when the answer's first sound was ready (seconds; negative: late).
A wait that the rule of turns chose, because the caller might go on, is not counted against the machine.
With six calls a minute has some thirty turns, so a single late one says nothing: admission closes when
there are more late ones than the promised share allows by chance.
"""

from collections import deque

from budget.activity import overload

_KEPT = 2000


class SlackWindow:
    """The slack of the turns of the last `seconds`. `now` is loop time; one that goes back only keeps them longer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turns: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    def seen(self, slack: float, now: float) -> None:
        """A turn was answered with so much slack."""
        self._turns.append((now, slack))

    def forget(self) -> None:
        """What was seen so far tells nothing any more."""
        self._turns.clear()

    def recent(self, now: float) -> list[float]:
        """The slacks in the window, ascending."""
        while self._turns and self._turns[0][0] < now - self._seconds:
            self._turns.popleft()
        return sorted(slack for _, slack in self._turns)

    def quantile(self, share: float, now: float, *, least: int = 1) -> float | None:
        """The slack that this share of the turns falls below; None for fewer than `least` turns."""
        values = self.recent(now)
        return values[min(len(values) - 1, int(share * len(values)))] if len(values) >= max(1, least) else None


class SlackGuard:
    """Closes admission while too many turns are late; opens again once they have not been for a while."""

    def __init__(
        self,
        *,
        late_below: float = 0.06,
        share: float = 0.05,
        doubt: float = 0.1,
        window: float = 60.0,
        opens_after: float = 15.0,
    ) -> None:
        self._late_below, self._share, self._doubt = late_below, share, doubt
        self._opens_after = opens_after
        self._window = SlackWindow(window)
        self._bad_at: float | None = None

    def seen(self, slack: float, now: float) -> None:
        """A turn was answered with so much slack (seconds)."""
        self._window.seen(slack, now)
        if slack >= self._late_below:
            return
        turns = self._window.recent(now)
        late = sum(slack < self._late_below for slack in turns)
        if late and overload(len(turns), self._share, late - 1) < self._doubt:
            self._bad_at = now

    def opens_in(self, now: float) -> float:
        """Seconds until calls may be admitted; 0: now."""
        if self._bad_at is None:
            return 0.0
        return min(self._opens_after, max(0.0, self._bad_at + self._opens_after - now))
