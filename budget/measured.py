"""The twin's figures for the machine at hand, from what a load test with one call measured.

Pieces of work come from the server's own counts by engine and class, how long callers speak and wait from the
turns. What the processor did beside the pieces is what a call costs all the time: audio, voice activity, protocol.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from budget.twin import Cost, Engine, Machine, Piece, Talk

_NEEDED = ("asr/first_audio", "llm/first_audio", "tts/first_audio")
_THINKS = (0.5, 2.0)
_PLAYOUT = 0.03
ENGINES = (
    Engine("asr", workers=2, background=True),
    Engine("llm", workers=1, batch=8, each=0.35),
    Engine("tts", workers=2),
    Engine("turn", workers=1),
)
"""As the service runs them. A token for one more call costs a third of the first one's: weights are read once."""


def model(result: Mapping[str, Any], *, cores: float = 2.0) -> tuple[Machine, Cost, Talk]:
    """Machine, cost of a turn, and talk, from the JSON of `halfsecond loadtest --calls 1`.

    Raises `ValueError` if it is none, or of a server that does not tell of its work.
    """
    try:
        step = next(step for step in result["steps"] if step["calls"] == 1)
        work: Mapping[str, Mapping[str, float]] = step["server"]["work"]
        turns = [turn for call in step["results"] for turn in call["turns"]]
        answered = [turn for turn in turns if turn["voice_to_voice_ms"] is not None]
        missing = [name for name in _NEEDED if name not in work]
    except (KeyError, TypeError, StopIteration) as error:
        raise ValueError("it is no result of a load test with one call") from error
    if missing or len(answered) < 2:
        raise ValueError(f"nothing is told of {', '.join(missing)}" if missing else "too few turns were answered")
    talk = _talk(turns, answered)
    cost = _cost(work, len(turns), talk)
    pieces = sum(kind["pieces"] * kind["took_ms"] / 1000 for kind in work.values())
    beside = step["server"]["cores"] - pieces / step["seconds"] if step["server"]["cores"] else 0.02
    return Machine(cores, ENGINES, media=max(0.005, beside)), cost, talk


def _talk(turns: Sequence[Mapping[str, Any]], answered: Sequence[Mapping[str, Any]]) -> Talk:
    speaks = fmean(turn["spoken_s"] for turn in turns)
    waits = sorted(max(0.0, turn["voice_to_voice_ms"] / 1000 - _PLAYOUT) for turn in answered)
    starts = [turn["at_s"] for turn in turns]
    cycle = (starts[-1] - starts[0]) / (len(starts) - 1)
    answer = cycle - speaks - fmean(waits) - sum(_THINKS) / 2
    return Talk(
        speaks=speaks,
        answer=max(0.5, answer),
        thinks=_THINKS,
        waits=tuple((1 / len(waits), wait) for wait in waits),
        playout=_PLAYOUT,
    )


def _cost(work: Mapping[str, Mapping[str, float]], turns: int, talk: Talk) -> Cost:
    def pieces(name: str) -> float:
        return work[name]["pieces"] if name in work else 0.0

    def seconds(name: str) -> float:
        return work[name]["took_ms"] / 1000 if name in work else 0.0

    def a_turn(name: str) -> float:
        return pieces(name) * seconds(name) / turns

    partials = max(1.0, pieces("asr/partial"))
    clauses = max(1, round(pieces("tts/continuation") / turns))
    return Cost(
        partial=Piece("asr", seconds("asr/partial")),
        ahead=Piece("llm", pieces("llm/speculation") * seconds("llm/speculation") / partials),
        # alone, most final decodes began at a dip and were counted as partial; beside others few do
        final=Piece("asr", max(a_turn("asr/first_audio"), seconds("asr/partial"))),
        judge=Piece("turn", a_turn("turn/first_audio")),
        first_words=Piece("llm", seconds("llm/first_audio")),
        first_clause=Piece("tts", seconds("tts/first_audio")),
        more_words=Piece("llm", a_turn("llm/continuation")),
        more_clauses=Piece("tts", a_turn("tts/continuation") / clauses),
        clauses=clauses,
        interval=talk.speaks * turns / partials,
    )
