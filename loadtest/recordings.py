"""What callers say: recordings named by a folder's `manifest.jsonl`."""

from pathlib import Path

from loadtest.accuracy import clips, load
from loadtest.latency import trimmed
from loadtest.line import Pcm
from loadtest.load import PROTOCOLS

RECORDINGS = Path(__file__).parent.parent / "tests" / "data" / "speech"
_SHORTEST, _LONGEST = 1.0, 12.0


def spoken(folder: Path | None, protocol: str) -> list[tuple[str, Pcm]]:
    """The English recordings of 1-12 s, at the protocol's rate, each cut to its speech.

    Raises `OSError` without a manifest and `ValueError` if it names none that fit.
    """
    folder = folder or RECORDINGS
    if not (folder / "manifest.jsonl").is_file():
        raise OSError(f"{folder} has no manifest.jsonl; give a folder with --recordings")
    rate = PROTOCOLS[protocol].rate
    chosen = clips(folder, lambda m: m["language"] == "en" and m["text"] and _SHORTEST <= m["seconds"] <= _LONGEST)
    if not chosen:
        raise ValueError(f"{folder} has no English recording of {_SHORTEST:.0f}-{_LONGEST:.0f} s")
    return [(clip.name, trimmed(load(clip.path, rate), rate)) for clip in chosen]
