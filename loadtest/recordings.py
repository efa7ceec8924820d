"""What callers say: recordings named by a folder's `manifest.jsonl`."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr

from loadtest.line import Pcm
from loadtest.script import Ask, Script

RECORDINGS = Path(__file__).parent.parent / "tests" / "data" / "speech"


@dataclass(frozen=True)
class Clip:
    """One recording, the words said in it, its length in seconds."""

    name: str
    path: Path
    text: str
    seconds: float
    expect: tuple[str, ...] = ()
    """Words of which the answer must contain one; none: it may say what it likes."""


def clips(folder: Path, wanted: Callable[[dict[str, Any]], Any]) -> list[Clip]:
    """The recordings of a folder's manifest (JSON lines: `file`, `language`, `text`, `seconds`) that are `wanted`.

    Raises `OSError` without a manifest and `ValueError` for a line that can't be read, with its number.
    """
    manifest, found = folder / "manifest.jsonl", []
    if not manifest.is_file():
        raise OSError(f"{folder} has no manifest.jsonl; give a folder with --recordings")
    for number, line in enumerate(manifest.read_text().splitlines(), 1):
        try:
            entry = json.loads(line)
            if wanted(entry):
                path = folder / entry["file"]
                found.append(Clip(path.stem, path, entry["text"] or "", float(entry["seconds"])))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{manifest}, line {number}: {error}") from error
    return found


def load(path: Path, rate: int) -> Pcm:
    """A recording as float32 mono at `rate`."""
    pcm, own = soundfile.read(path, dtype="float32", always_2d=True)
    mono = pcm.mean(axis=1)
    return np.asarray(mono if own == rate else soxr.resample(mono, own, rate), np.float32)


def spoken(folder: Path | None) -> list[Clip]:
    """The English recordings with words; raises as `clips`."""
    return clips(folder or RECORDINGS, lambda entry: entry["language"] == "en" and entry["text"])


def chosen(script: Script, recordings: list[Clip]) -> list[Clip]:
    """Those that a script says. Raises `ValueError` if there is none, or one that it asks for is missing."""
    if script.silent:
        return []
    if script.ask:
        return [_asked(script.name, ask, recordings) for ask in script.ask]
    least, most = script.seconds

    def named(clip: Clip, patterns: tuple[str, ...]) -> bool:
        return any(fnmatch(clip.name, pattern) for pattern in patterns)

    found = [
        clip
        for clip in recordings
        if least <= clip.seconds <= most
        and (not script.says or named(clip, script.says))
        and not named(clip, script.skips)
    ]
    if not found:
        raise ValueError(f"script {script.name}: no recording of {least:g}-{most:g} s that it could say")
    return found


def _asked(script: str, ask: Ask, recordings: list[Clip]) -> Clip:
    for clip in recordings:
        if ask.file in (clip.name, clip.path.name):
            return replace(clip, expect=ask.expect)
    raise ValueError(f"script {script}: the manifest has no recording {ask.file}")
