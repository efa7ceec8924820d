"""People talking, as ITU-T P.59 has them (artificial conversational speech): to check rules about active calls.

Talk-spurts of 1.004 s and pauses of 1.587 s on average, both exponential: each side talks 38.7% of the time.
P.59 adds double talk and mutual silence, which tie the two sides of one call together; only the caller's side
is heard by a recogniser, so it is left out.
"""

import heapq
import random

TALK_SPURT, PAUSE = 1.004, 1.587
"""Mean seconds (ITU-T P.59, table 1)."""
SHARE = TALK_SPURT / (TALK_SPURT + PAUSE)


def overloaded(calls: int, lanes: int, *, seconds: float = 20_000.0, seed: int = 0, busier: float = 1.0) -> float:
    """The share of the time in which more than `lanes` of the calls talk at once.

    `busier` shortens the pauses, so that callers talk more than P.59's.
    """
    dice = random.Random(seed)
    talks = [dice.random() < SHARE for _ in range(calls)]
    changes = [(dice.expovariate(1 / (TALK_SPURT if talks[i] else PAUSE / busier)), i) for i in range(calls)]
    heapq.heapify(changes)
    active, now, over = sum(talks), 0.0, 0.0
    while changes[0][0] < seconds:
        at, one = changes[0]
        over += (at - now) * (active > lanes)
        now = at
        talks[one] = not talks[one]
        active += 1 if talks[one] else -1
        length = dice.expovariate(1 / (TALK_SPURT if talks[one] else PAUSE / busier))
        heapq.heapreplace(changes, (at + length, one))
    return over / now if now else 0.0
