"""What a caller does, from a small TOML file: how it speaks, thinks, interrupts. `loadtest/scripts` has some.

says = ["card_*"]            # recordings, by file name; left out: all of fitting length
skips = ["vosk_*"]           # of these not
seconds = [1.0, 12.0]        # length of what it says
think = [0.5, 2.0]           # pause after an answer
activity = 0.4               # thinks on until it has spoken so much of the time; left out: as it comes
interrupts = 0.3             # share of the answers it speaks into
interrupts_after = [0.5, 2]  # so long after they begin
silent = false               # never says a word

[[ask]]                      # instead of `says`: what the answer must contain, one of these words
file = "two_and_two"
expect = ["four", "4"]
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "scripts"
Range = tuple[float, float]


@dataclass(frozen=True)
class Ask:
    """A recording, and the words of which its answer must contain one."""

    file: str
    expect: tuple[str, ...] = ()


@dataclass(frozen=True)
class Script:
    """How one kind of caller behaves; times in seconds, shares from 0 to 1."""

    name: str
    says: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    seconds: Range = (1.0, 12.0)
    think: Range = (0.5, 2.0)
    activity: float = 1.0
    interrupts: float = 0.0
    interrupts_after: Range = (0.5, 2.0)
    patience: float = 15.0
    silent: bool = False
    ask: tuple[Ask, ...] = ()
    weight: int = 1
    """How many callers follow it, among those of the other scripts."""


class ScriptError(ValueError):
    """A script with a mistake: file, line and reason."""


def read(name: str) -> Script:
    """A script of `loadtest/scripts` by name, or a file; `dialogue:3` weighs three. Raises `ScriptError`."""
    given, colon, weight = name.rpartition(":")
    if colon and weight.isdigit():
        return replace(read(given), weight=max(1, int(weight)))
    path = FOLDER / f"{name}.toml" if "/" not in name and not name.endswith(".toml") else Path(name)
    try:
        text = path.read_text()
    except OSError as error:
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("*.toml")))
        raise ScriptError(f"no script {name}: {error.strerror}; there are {known}, or give a .toml file") from error
    return parse(text, path.stem, str(path))


def parse(text: str, name: str, where: str) -> Script:
    """A script from its text. Raises `ScriptError` with `where` and the line."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error).replace("end of document", f"line {len(text.splitlines())}, the end")
        raise ScriptError(f"{where}: {reason}") from error
    made: dict[str, Any] = {}
    for key, value in given.items():
        if key not in _READERS:
            raise ScriptError(f"{where}, line {_line(text, key)}: no setting {key}; known are {', '.join(_READERS)}")
        try:
            made[key] = _READERS[key](value)
        except (TypeError, ValueError) as error:
            raise ScriptError(f"{where}, line {_line(text, key)}: {key} {error}, not {value!r}") from error
    return Script(name, **made)


def _line(text: str, key: str) -> int:
    """The line on which a key, or a table of that name, stands."""
    pattern = re.compile(rf"\s*(\[\[?\s*)?[\"']?{re.escape(key)}\b")
    return next((i for i, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 1)


def _range(value: Any) -> Range:
    if not (isinstance(value, list) and len(value) == 2 and all(_is_number(v) for v in value)):
        raise ValueError("must be two numbers, [least, most]")
    least, most = float(value[0]), float(value[1])
    if not 0 <= least <= most <= 3600:
        raise ValueError("must be seconds, the least first")
    return least, most


def _seconds(value: Any) -> float:
    if not _is_number(value) or not 0 < value <= 3600:
        raise ValueError("must be seconds")
    return float(value)


def _share(value: Any) -> float:
    if not _is_number(value) or not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) and v for v in value):
        raise ValueError("must be a list of texts")
    return tuple(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _asks(value: Any) -> tuple[Ask, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("must be tables, [[ask]]")
    return tuple(_ask(entry) for entry in value)


def _ask(entry: Any) -> Ask:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("file"), str) or set(entry) - {"file", "expect"}:
        raise ValueError('must have a file = "..." and may have expect = ["..."]')
    return Ask(entry["file"], _words(entry["expect"]) if "expect" in entry else ())


_READERS: dict[str, Callable[[Any], Any]] = {
    "says": _words,
    "skips": _words,
    "seconds": _range,
    "think": _range,
    "activity": _share,
    "interrupts": _share,
    "interrupts_after": _range,
    "patience": _seconds,
    "silent": _truth,
    "ask": _asks,
}
