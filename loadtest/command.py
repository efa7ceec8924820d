"""`halfsecond loadtest`: how many calls does a server carry?"""

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadtest.line import Pcm
    from loadtest.load import Load

DESCRIPTION = """\
Calls a server as real clients do, holds more and more conversations at once, and
tells how late its answers are as the callers hear them: from the last sample of
speech sent to the first audible sample that could be played. A turn without an
answer is infinitely late. Bounds are those of 95% confidence, by call."""

EXAMPLES = """\
examples:
  halfsecond loadtest --calls 1 2 4 6             against the service on this machine
  halfsecond loadtest ws://voice.lan:8080 --protocol realtime --seconds 120
  halfsecond loadtest --find-capacity --slo 800   grow until p95 goes over 800 ms
exit status: 0 the target held at every step asked for (or a capacity was found), 1 it did not,
2 the server could not be reached or the command is wrong, 3 the tester itself was too slow"""

_MOST = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("server", nargs="?", default="ws://127.0.0.1:8080", help="default: %(default)s")
    parser.add_argument("--protocol", choices=("twilio", "realtime"), default="twilio", help="default: %(default)s")
    parser.add_argument("--calls", type=_positive, nargs="+", default=[1], metavar="N", help="calls at once")
    parser.add_argument("--find-capacity", action="store_true", help="grow and bisect instead of --calls")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of a step (default: %(default)s)")
    parser.add_argument("--slo", type=float, default=800.0, metavar="MS", help="target for p95 (default: %(default)s)")
    parser.add_argument("--recordings", type=Path, metavar="DIR", help="manifest.jsonl and the recordings it names")
    parser.add_argument("--seed", type=int, default=0, help="order of the recordings and pauses")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every turn here too")


def _positive(text: str) -> int:
    value = int(text)
    if not 1 <= value <= _MOST:
        raise argparse.ArgumentTypeError(f"must be 1 to {_MOST}, not {value}")
    return value


def run(options: argparse.Namespace) -> int:
    """Run the command; returns its exit status."""
    try:
        from loadtest import recordings
    except ImportError as error:
        print(f"halfsecond: {error.name} is missing; run `pip install halfsecond[bench]`", file=sys.stderr)
        return 2
    try:
        said = recordings.spoken(options.recordings, options.protocol)
    except (OSError, ValueError) as error:
        print(f"halfsecond: no recordings to speak: {error}", file=sys.stderr)
        return 2
    loads: list[Load] = []
    try:
        asyncio.run(_steps(options, said, loads))
    except KeyboardInterrupt:
        print("interrupted: the steps so far are kept", file=sys.stderr)
    if options.json is not None:
        options.json.write_text(json.dumps([_plain(load) for load in loads], indent=1))
    return _status(options, loads)


async def _steps(options: argparse.Namespace, said: "Sequence[tuple[str, Pcm]]", loads: "list[Load]") -> None:
    from loadtest.search import Search

    if not options.find_capacity:
        for calls in options.calls:
            loads.append(await _step(options, said, calls, options.seed + len(loads)))
            if loads[-1].unreachable:
                return
        return
    search = Search()
    while (calls := search.next()) is not None:
        loads.append(await _step(options, said, calls, options.seed + len(loads)))
        if loads[-1].unreachable or not loads[-1].counts:
            return
        search.saw(calls, loads[-1].holds(options.slo / 1000))
    how = f"{options.protocol}, steps of {options.seconds:.0f} s"
    print(f"carries {search.best} calls at p95 <= {options.slo:.0f} ms ({how})")


async def _step(options: argparse.Namespace, said: "Sequence[tuple[str, Pcm]]", calls: int, seed: int) -> "Load":
    from rich.console import Console
    from rich.progress import Progress

    from loadtest.load import hold

    console = Console()
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(f"{calls} calls" if calls > 1 else "1 call", total=options.seconds + calls - 1)

        async def tick() -> None:
            while True:
                await asyncio.sleep(0.5)
                bar.advance(task, 0.5)

        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(tick())
            load = await hold(options.server, options.protocol, said, calls=calls, seconds=options.seconds, seed=seed)
            ticking.cancel()
    console.print(_line(load, options.slo), soft_wrap=True, highlight=False)
    return load


def _line(load: "Load", slo: float) -> str:
    """One step in words."""
    text = f"{load.calls:3d} calls, {len(load.turns)} turns:"
    for share in (0.5, 0.95):
        found = load.latency(share)
        text += f" p{share * 100:.0f} {_ms(found.value)} ms ({_ms(found.low)}-{_ms(found.high)}),"
    text += f" {load.unanswered} unanswered, {load.cut_ins} cut into, {load.gaps} gaps"
    for name, why in (("refused", load.refused), ("broken off", load.broken)):
        if why:
            text += f", {len(why)} {name} ({why[0]})"
    if not load.counts:
        return f"{text}; DOES NOT COUNT: the tester itself was {_ms(load.tester_late)} ms late"
    return text + ("; holds" if load.holds(slo / 1000) else "; does not hold")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}" if math.isfinite(seconds) else "never" if math.isinf(seconds) else "-"


def _plain(load: "Load") -> dict[str, Any]:
    """A step as JSON: an unanswered turn has no latency."""
    return {
        "calls": load.calls,
        "counts": load.counts,
        "tester_late_ms": _finite(load.tester_late),
        "refused": load.refused,
        "broken": load.broken,
        "gaps": load.gaps,
        "turns": [
            {
                "call": number,
                "clip": turn.clip,
                "voice_to_voice_ms": _finite(turn.latency),
                "cut_in_ms": _finite(turn.cut_in),
            }
            for number, result in enumerate(load.results)
            for turn in result.turns
        ],
    }


def _finite(seconds: float) -> float | None:
    return round(seconds * 1000, 1) if math.isfinite(seconds) else None


def _status(options: argparse.Namespace, loads: "Sequence[Load]") -> int:
    if not loads or any(load.unreachable for load in loads):
        return 2
    if not all(load.counts for load in loads):
        return 3
    return 0 if options.find_capacity or all(load.holds(options.slo / 1000) for load in loads) else 1
