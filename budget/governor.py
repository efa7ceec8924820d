"""The governor: gives up what callers miss least, a step at a time, before answers are late; and takes it back.

Its rules are the two tables below. `LADDER` is what each step changes, `RULES` when a step is taken. It
looks at the slack of the last seconds' turns: what was left of the target when their answer was ready.
Pure: turns and the time go in, changes come out.
"""

from dataclasses import dataclass, replace

from budget.head_start import LEAST
from budget.slack import SlackWindow


@dataclass(frozen=True)
class Effort:
    """How much is done for a caller beyond the answer itself."""

    speculate: bool = True
    """Decode on a guess that the turn ends here. Reading the prompt ahead goes on: without it answers are later."""
    partial_interval: float = 1.0
    """How much longer than usual until the next partial transcript."""
    smaller: bool = False
    """Hear with the smaller of two models."""
    first_clause: float = 1.0
    """Length of the first clause, of the usual."""
    reply: float = 1.0
    """Length of a reply, of the usual."""
    head_start: float = LEAST
    """Seconds before the end of a chosen wait at which an answer is begun; measured, no step of the ladder."""
    filler: bool = False
    """Say a short phrase at the deadline where the answer is not ready."""
    admits: bool = True


@dataclass(frozen=True)
class Step:
    """One step of the ladder: its name, and what is done from there on."""

    name: str
    effort: Effort


def ladder(*, smaller: bool = False) -> tuple[Step, ...]:
    """The steps; with `smaller` there is a smaller recogniser to step down to. Each keeps what those before gave up."""
    usual = Effort()
    steps = [Step("usual", usual)]
    for name, change in (
        ("speculation off", {"speculate": False}),
        ("partials rarer", {"partial_interval": 2.0}),
        *((("smaller recogniser", {"smaller": True}),) if smaller else ()),
        ("first clause shorter", {"first_clause": 0.6}),
        ("replies shorter", {"reply": 0.5}),
        ("filler at the deadline", {"filler": True}),
        ("admission closed", {"admits": False}),
    ):
        usual = replace(usual, **change)
        steps.append(Step(name, usual))
    return tuple(steps)


LADDER = ladder()


@dataclass(frozen=True)
class Rules:
    """When a step is taken (seconds).

    Down: the slack that a quarter of the turns of the last `window` fall below is under `down_below`,
    and `down_every` has passed since the last step, since a step takes that long to show. Up: it has been
    above `up_above` for `up_after`, or there were no turns so long. Turns before the last step don't count;
    fewer than `least` say nothing.
    """

    window: float = 10.0
    quarter: float = 0.25
    least: int = 3
    down_below: float = 0.15
    down_every: float = 3.0
    up_above: float = 0.3
    up_after: float = 10.0


RULES = Rules()


@dataclass(frozen=True)
class Change:
    """The governor took a step; `slack` is what it saw (None: there were no turns)."""

    before: Step
    after: Step
    slack: float | None


class Governor:
    """One for the process, asked every second or so."""

    def __init__(self, rules: Rules = RULES, ladder: tuple[Step, ...] = LADDER) -> None:
        self._rules, self._ladder = rules, ladder
        self._window = SlackWindow(rules.window)
        self.level = 0
        self._stepped = float("-inf")
        self._good_since: float | None = None

    @property
    def step(self) -> Step:
        """The step in force."""
        return self._ladder[self.level]

    @property
    def effort(self) -> Effort:
        """What is done now."""
        return self.step.effort

    def seen(self, slack: float, now: float) -> None:
        """A turn was answered with so much slack (seconds)."""
        self._window.seen(slack, now)

    def watch(self, now: float) -> Change | None:
        """Take a step if the rules say so."""
        slack = self._window.quantile(self._rules.quarter, now, least=self._rules.least)
        good = slack is None or slack > self._rules.up_above
        if not good:
            self._good_since = None
        elif self._good_since is None or now < self._good_since:
            self._good_since = now
        if slack is not None and slack < self._rules.down_below:
            return self._to(self.level + 1, slack, now) if now - self._stepped >= self._rules.down_every else None
        waited = self._good_since is not None and now - max(self._good_since, self._stepped) >= self._rules.up_after
        return self._to(self.level - 1, slack, now) if waited else None

    def _to(self, level: int, slack: float | None, now: float) -> Change | None:
        level = min(len(self._ladder) - 1, max(0, level))
        if level == self.level:
            return None
        before, self.level, self._stepped = self.step, level, now
        self._window.forget()
        return Change(before, self.step, slack)
