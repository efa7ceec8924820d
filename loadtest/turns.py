"""Turns cut into, as the caller hears it: recordings with pauses inside a sentence, over the telephone.

A pause is cut into when more than 0.2 s of the agent's voice was heard before the caller went on.
Pauses are natural ones of long recordings, and 0.3-0.9 s of line noise put into sentences at their
quietest place. Where a recording ends a sentence (`pauses.json`), an answer is no cut-in.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loadtest.latency import half_scale, speech_span
from loadtest.line import Pcm
from loadtest.recordings import Clip, load
from loadtest.telephone import FRAME, RATE, Telephone

CUT = 0.2
"""Seconds of the agent's voice before the caller goes on that make a cut-in."""
_LENGTHS = (0.3, 0.6, 0.9, 0.45, 0.75)
_SHORTEST_NATURAL = 0.3
_BLOCK = 80
_QUIET = 0.012


@dataclass(frozen=True)
class Pause:
    """No speech between these times of a clip (seconds)."""

    start: float
    end: float


@dataclass(frozen=True)
class Utterance:
    """What is said, and the pauses in it that are inside a sentence."""

    name: str
    pcm: Pcm
    pauses: tuple[Pause, ...]


@dataclass(frozen=True)
class Heard:
    """One pause: its length and how long the agent was heard in it (seconds)."""

    name: str
    length: float
    agent: float

    @property
    def cut(self) -> bool:
        """Whether the caller was cut into."""
        return self.agent > CUT


def _levels(pcm: Pcm) -> Pcm:
    blocks = pcm[: len(pcm) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    return np.asarray(np.sqrt((blocks**2).mean(axis=1)))


def natural_pauses(pcm: Pcm, ends: Sequence[float]) -> tuple[Pause, ...]:
    """The quiet stretches of 0.3 s and more in a clip (8 kHz), but those at the `ends` of sentences."""
    quiet = np.flatnonzero(_levels(pcm) < _QUIET)
    runs = np.split(quiet, np.flatnonzero(np.diff(quiet) > 1) + 1)
    step = _BLOCK / RATE
    found = [Pause(int(run[0]) * step, (int(run[-1]) + 1) * step) for run in runs if run.size]
    inner = [pause for pause in found if pause.start > 0.1 and pause.end < len(pcm) / RATE - 0.1]
    return tuple(p for p in inner if p.end - p.start >= _SHORTEST_NATURAL and not _near(p.start, ends))


def _near(time: float, ends: Sequence[float]) -> bool:
    return any(abs(time - end) < 0.7 for end in ends)


def with_pause(clip: Clip, pcm: Pcm, share: float, seconds: float, ends: Sequence[float]) -> Utterance | None:
    """The clip with its quietest place near `share` of it stretched to a pause of `seconds`; None if there is none."""
    levels, step = _levels(pcm), _BLOCK / RATE
    smooth = np.convolve(levels, np.ones(6) / 6, "same")
    middle = int(len(levels) * share)
    reach = min(45, round(0.15 * len(levels)))
    near = range(middle - reach, middle + reach)
    inside = [i for i in near if not _near(i * step, ends)]
    if not inside:
        return None
    at = min(inside, key=lambda i: smooth[i])
    first, last = at, at
    while first > 0 and levels[first - 1] < _QUIET:
        first -= 1
    while last < len(levels) and levels[last] < _QUIET:
        last += 1
    missing = seconds - (last - first) * step
    if missing < 0.05:
        return None
    line = np.random.default_rng(1).normal(0, 0.0003, round(missing * RATE)).astype(np.float32)
    joined = np.concatenate([pcm[: at * _BLOCK], line, pcm[at * _BLOCK :]])
    return Utterance(clip.name, joined, (Pause(first * step, first * step + seconds),))


def utterances(folder: Path, clips: Sequence[Clip]) -> list[Utterance]:
    """The set: each clip of 2.2-12 s with one pause put into it, each longer one as it is."""
    ends: dict[str, list[float]] = json.loads((folder.parent / "pauses.json").read_text())["sentence_ends"]
    made: list[Utterance] = []
    for clip in clips:
        whole = load(clip.path, RATE)
        first, last = speech_span(whole)
        pcm = half_scale(whole)[first:last]
        known = [end - first / RATE for end in ends.get(clip.name, [])]
        if clip.seconds > 12:
            made.append(Utterance(clip.name, pcm, natural_pauses(pcm, known)))
        elif clip.seconds >= 2.2:
            share = 0.35 if len(made) % 2 else 0.65
            joined = with_pause(clip, pcm, share, _LENGTHS[len(made) % len(_LENGTHS)], known)
            made += [joined] if joined else []
    return made


async def listen(server: str, said: Sequence[Utterance], progress: Callable[[str], None]) -> list[Heard]:
    """Say everything in one call; how long the agent was heard in each pause."""
    heard: list[Heard] = []
    async with Telephone(server) as phone:
        await phone.hear_out(1.0)
        for i, utterance in enumerate(said):
            progress(f"turns: {utterance.name}, {i + 1} of {len(said)}")
            ended = await phone.say(utterance.pcm)
            began = ended - len(utterance.pcm) // FRAME * FRAME / RATE
            for pause in utterance.pauses:
                inside = [at for at in phone.sounds if began + pause.start < at < began + pause.end]
                heard.append(Heard(utterance.name, pause.end - pause.start, 0.01 * len(inside)))
            await phone.wait(2.0)
            await phone.hear_out(0.5)
    return heard
