"""What one turn asks of this machine, from a short measurement of each kind of work: the twin's figures at start-up.

A load test with one call measures the same better (`budget.measured`); this needs no caller.
"""

from dataclasses import astuple, dataclass, replace

from budget.measured import ENGINES
from budget.twin import Cost, Machine, Piece, Talk


@dataclass(frozen=True)
class UnitCosts:
    """Seconds that one piece takes alone on the machine."""

    decode: float
    """Some three seconds of speech to text."""
    judge: float
    """The sound of a turn's end."""
    ahead: float
    """The language model reads a few words of the caller."""
    first_words: float
    """It reads the last words and writes the first clause."""
    more_words: float
    """It writes the rest of a reply."""
    first_clause: float
    clause: float


@dataclass(frozen=True)
class CoresUsed:
    """Cores that a piece of each engine keeps busy on the average: more than one where it has several threads."""

    asr: float = 1.0
    llm: float = 1.0
    tts: float = 1.0


CONTENTION = 1.15
"""Beside others a piece takes longer than its share of the cores says: caches and memory are shared too.

Fitted on two cores to p95 at 4, 5 and 6 calls. Measured: 746, 818 and 918 ms on average; simulated with one thread
of the voice 710, 767 and 791, with two 818, 884 and 974. On another machine 4 calls: 891 and 918.
"""
LONGER = 1.3
"""A final decode has more to do than the clip that is measured: up to eight seconds, and pauses inside a turn."""
MEDIA = 0.03
"""Cores that a call takes all the time (`docs/latency.md`)."""
TALK = Talk(
    speaks=4.5,
    answer=5.0,
    thinks=(0.5, 2.0),
    waits=((0.14, 0.22), (0.26, 0.3), (0.29, 0.5), (0.1, 0.6), (0.21, 0.68)),
)
"""Callers who are new to the service, as the dialogue script of the load tester has them; waits were measured."""


_ONE_EACH = CoresUsed()


def twin(costs: UnitCosts, cores: float, used: CoresUsed = _ONE_EACH) -> tuple[Machine, Cost]:
    """The machine and the pieces of a turn, for `budget.twin`."""
    costs = UnitCosts(*(CONTENTION * seconds for seconds in astuple(costs)))
    cost = Cost(
        partial=Piece("asr", costs.decode),
        ahead=Piece("llm", costs.ahead),
        final=Piece("asr", LONGER * costs.decode),
        judge=Piece("turn", costs.judge),
        first_words=Piece("llm", costs.first_words),
        first_clause=Piece("tts", costs.first_clause),
        more_words=Piece("llm", costs.more_words),
        more_clauses=Piece("tts", costs.clause),
    )
    engines = tuple(replace(engine, cores=getattr(used, engine.name, 1.0)) for engine in ENGINES)
    return Machine(cores, engines, media=MEDIA), cost
