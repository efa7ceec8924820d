"""How many calls a machine carries in the circumstances of now: its speed, the cores left to it, how much callers talk.

The twin is asked again when these have changed. It takes a second or so of pure reckoning, which would keep the
event loop from its work; so it can be run as a program of its own: `python -m budget.carries`, JSON in and out.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from budget.twin import Talk, Target, capacity
from budget.unit_costs import TALK, CoresUsed, UnitCosts, twin

_CHANGED = 0.1
"""The twin is asked again when something is so much more or less, in parts of it."""
_LEAST_PAUSE = 0.2
_NICE = 15
"""The program gets what calls leave of the cores."""


@dataclass(frozen=True)
class Circumstances:
    """`asr`, `llm` and `tts`: times as long as the engine's pieces take now as they took at their best."""

    cores: float
    asr: float = 1.0
    llm: float = 1.0
    tts: float = 1.0
    talks: float | None = None
    """Share of a call that its caller talks; None: as the twin takes it to be."""

    def changed_from(self, other: "Circumstances") -> bool:
        """Whether the twin is to be asked again."""
        if (self.talks is None) is not (other.talks is None):
            return True
        pairs = zip(astuple(self), astuple(other), strict=True)
        return any(abs(mine - theirs) > _CHANGED * theirs for mine, theirs in pairs if mine is not None)


def slower(costs: UnitCosts, now: Circumstances) -> UnitCosts:
    """What each piece takes now (seconds); the judge of sound runs where recognition does."""
    return UnitCosts(
        decode=now.asr * costs.decode,
        judge=now.asr * costs.judge,
        ahead=now.llm * costs.ahead,
        first_words=now.llm * costs.first_words,
        more_words=now.llm * costs.more_words,
        first_clause=now.tts * costs.first_clause,
        clause=now.tts * costs.clause,
    )


def talking(share: float | None) -> Talk:
    """Callers who talk this share of the time: what is said to them, and their thinking, is longer or shorter."""
    if share is None:
        return TALK
    waits = sum(part * wait for part, wait in TALK.waits)
    usual = TALK.answer + sum(TALK.thinks) / 2
    stretch = max(_LEAST_PAUSE, (TALK.speaks * (1 - share) / share - waits) / usual)
    shortest, longest = TALK.thinks
    return replace(TALK, answer=TALK.answer * stretch, thinks=(shortest * stretch, longest * stretch))


_ONE_EACH = CoresUsed()


def carries(costs: UnitCosts, now: Circumstances, target: Target, *, most: int, used: CoresUsed = _ONE_EACH) -> int:
    """Calls, up to `most`, of which the target's share is answered in time; 0 if not even one call's."""
    machine, cost = twin(slower(costs, now), now.cores, used)
    return capacity(machine, cost, talking(now.talks), target, most=most)


def question(costs: UnitCosts, now: Circumstances, target: Target, *, most: int, used: CoresUsed = _ONE_EACH) -> str:
    """The same, asked of the program: a line for its input."""
    plain = {"costs": asdict(costs), "now": asdict(now), "target": asdict(target), "used": asdict(used)}
    return json.dumps({**plain, "most": most})


def answer(asked: Mapping[str, Any]) -> int:
    """The program's answer."""
    costs, now, target = UnitCosts(**asked["costs"]), Circumstances(**asked["now"]), Target(**asked["target"])
    return carries(costs, now, target, most=asked["most"], used=CoresUsed(**asked["used"]))


if __name__ == "__main__":
    os.nice(_NICE)
    print(answer(json.load(sys.stdin)))
