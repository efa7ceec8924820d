"""Voice-to-voice latency and barge-in as the caller hears them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loadtest.line import FRAME_SECONDS, Line, Pcm
from loadtest.recordings import Clip, load
from loadtest.telephone import FRAME, RATE, Telephone

_PAUSE = 0.2
"""Seconds of silence before an answer."""
_EARLY, _GOES_ON = 0.5, 0.3
"""An answer that begins so shortly before its caller's end is one if it goes on so long after it."""
PATIENCE = 10.0
"""Seconds after which a turn counts as unanswered."""


@dataclass(frozen=True)
class Measured:
    """One turn: milliseconds from the last speech sample to the first audible one of the answer; None: unanswered."""

    clip: str
    milliseconds: float | None


def speech_span(pcm: Pcm, rate: int = RATE) -> tuple[int, int]:
    """Samples from 100 ms before the first to the end of the last 20 ms above -28 dB of a clip's peak.

    A sound more than 0.3 s behind the last 60 ms that are loud throughout is a click or a breath, not
    the end of a word: the agent rightly answers before it.
    """
    frame = round(rate * FRAME_SECONDS)
    frames = len(pcm) // frame
    blocks = pcm[: frames * frame].reshape(frames, frame)
    levels, power = np.abs(blocks).max(axis=1), np.sqrt((blocks**2).mean(axis=1))
    loud = np.flatnonzero(levels > 0.04 * max(1e-6, float(np.abs(pcm).max())))
    full = power > 0.05 * power.max()
    lasting = np.flatnonzero(full[2:] & full[1:-1] & full[:-2])
    if lasting.size:
        loud = loud[loud <= int(lasting[-1]) + 2 + 15]
    return max(0, int(loud[0]) - 5) * frame, (int(loud[-1]) + 1) * frame


def half_scale(pcm: Pcm) -> Pcm:
    """The clip with its peak at 0.5: some recordings are fainter than a telephone line is noisy."""
    return pcm / max(1e-6, float(np.abs(pcm).max())) * 0.5


def trimmed(pcm: Pcm, rate: int = RATE) -> Pcm:
    """The clip at half scale, cut to its speech."""
    first, last = speech_span(pcm, rate)
    return half_scale(pcm)[first:last]


def answers_begin(sounds: Sequence[float], ended: float) -> float | None:
    """The first of the `sounds` (times, ascending) that begins an answer to what ended at `ended`.

    It has 0.2 s of silence before it, and comes after the end, or in the caller's last syllable and goes on (that
    is a cut-in too if it is early by more than `turns.CUT`). What began earlier answers something else.
    """
    previous = float("-inf")
    for at in sounds:
        early = at > ended - _EARLY and sounds[-1] > ended + _GOES_ON
        if at - previous > _PAUSE and (at > ended or early):
            return at
        previous = at
    return None


async def conversation(
    line: Line, clips: Sequence[Clip], turns: int, progress: Callable[[str], None]
) -> list[Measured]:
    """One call: say a clip, wait for the answer, hear it out, say the next."""
    measured: list[Measured] = []
    async with line as phone:
        await phone.hear_out(1.0)
        for i in range(turns):
            clip = clips[i % len(clips)]
            progress(f"latency: turn {i + 1} of {turns}, {clip.name}")
            ended = await phone.say(trimmed(load(clip.path, line.rate), line.rate))
            heard = await answer(phone, ended)
            measured.append(Measured(clip.name, None if heard is None else (heard - ended) * 1000))
            await phone.hear_out(0.5)
    return measured


async def interruptions(server: str, recordings: Path, count: int, progress: Callable[[str], None]) -> list[float]:
    """Milliseconds that agent audio goes on after the caller begins to speak over it, for each barge-in."""
    question = trimmed(load(recordings / "ls_1995-1837-0001.flac", RATE))
    over = _from_first_sound(load(recordings / "sb_spk1_snt5.flac", RATE))
    times: list[float] = []
    for i in range(count):
        progress(f"barge-in {i + 1} of {count}")
        async with Telephone(server) as phone:
            await phone.hear_out(1.0)
            ended = await phone.say(question)
            if await answer(phone, ended) is None:
                continue
            await phone.wait(0.4)
            began = asyncio.get_running_loop().time()
            if phone.audible_until < began + 0.05:
                continue
            await phone.say(over)
            after = [at for at in phone.sounds if began < at < began + 2.0]
            times.append((max(after) + 0.01 - began) * 1000 if after else 0.0)
    return times


def _from_first_sound(pcm: Pcm) -> Pcm:
    """The clip from the first 20 ms within 14 dB of its peak: breath and lip noise before it are no speech yet."""
    pcm = trimmed(pcm)
    frames = np.abs(pcm[: len(pcm) // FRAME * FRAME].reshape(-1, FRAME)).max(axis=1)
    return pcm[int(np.flatnonzero(frames > 0.1)[0]) * FRAME :]


async def answer(phone: Line, ended: float) -> float | None:
    """When the answer begins after `ended`; keeps the line's noise going meanwhile.

    Agent audio that was sounding at `ended` answers something earlier: only a sound after 0.2 s of
    silence begins an answer.
    """
    loop = asyncio.get_running_loop()
    while loop.time() < ended + PATIENCE:
        after = answers_begin(phone.sounds, ended)
        if after is not None:
            return after
        await phone.tick()
    return None
