"""One caller in a dialogue: says a recording, hears the answer out, thinks, says the next."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import websockets

from loadtest.latency import answer
from loadtest.line import Line, Pcm
from loadtest.statistics import UNANSWERED

THINKS = (0.5, 2.0)
"""Seconds, between which a caller thinks after an answer."""
_LONGEST_REPLY = 30.0


@dataclass(frozen=True)
class Turn:
    """What was said, and seconds from its last sample to the first audible one of the answer; infinite: none came.

    `cut_in`: seconds of the agent's voice while the caller was still speaking.
    """

    clip: str
    latency: float
    cut_in: float


@dataclass
class CallResult:
    """What one caller saw."""

    turns: list[Turn] = field(default_factory=list)
    refused: str = ""
    """Why the call was not taken; empty if it was."""
    broken: str = ""
    """How the call ended before its time; empty if it did not."""
    gaps: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)


async def call(line: Line, said: Sequence[tuple[str, Pcm]], *, until: float, seed: int) -> CallResult:
    """Talk until `until` (event loop's seconds). A call that is refused or breaks is a result, not an error."""
    result = CallResult()
    try:
        async with line:
            await _talk(line, said, result, until, np.random.default_rng(seed))
    except websockets.InvalidStatus as error:
        after = error.response.headers.get("Retry-After", "")
        result.refused = f"HTTP {error.response.status_code}" + (f", Retry-After {after}" if after else "")
    except (OSError, websockets.InvalidHandshake, TimeoutError) as error:
        result.refused = str(error) or type(error).__name__
    except websockets.ConnectionClosed as error:
        result.broken = str(error)
    result.gaps, result.late = line.gaps, line.late
    return result


async def _talk(
    line: Line, said: Sequence[tuple[str, Pcm]], result: CallResult, until: float, chance: np.random.Generator
) -> None:
    loop = asyncio.get_running_loop()
    await line.hear_out(1.0)
    turn = int(chance.integers(len(said)))
    while loop.time() < until:
        name, pcm = said[turn % len(said)]
        turn += 1
        began = loop.time()
        ended = await line.say(pcm)
        cut_in = 0.01 * sum(began < at < ended for at in line.sounds)
        heard = await answer(line, ended)
        result.turns.append(Turn(name, UNANSWERED if heard is None else heard - ended, cut_in))
        try:
            async with asyncio.timeout(_LONGEST_REPLY):
                await line.hear_out(float(chance.uniform(*THINKS)))
        except TimeoutError:
            result.broken = f"the agent spoke for more than {_LONGEST_REPLY:.0f} s"
            return
