"""`halfsecond loadtest`: how many calls does a server carry?"""

import argparse
import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadtest.load import Target
    from loadtest.steps import Steps

DESCRIPTION = """\
Calls a server as real clients do, holds more and more conversations at once, and
tells how late its answers are as the callers hear them: from the last sample of
speech sent to the first audible sample that could be played. A turn without an
answer is infinitely late. Bounds are those of 95% confidence, by call."""

EXAMPLES = """\
examples:
  halfsecond loadtest --calls 1 2 4 6             against the service on this machine
  halfsecond loadtest --find-capacity --slo "p95<=800ms" --html capacity.html
  halfsecond loadtest https://voice.example.com --protocol webrtc --calls 4 --seconds 120
  halfsecond loadtest sip:127.0.0.1:5060 --calls 4
  halfsecond loadtest --script dialogue:4 interrupter silent --calls 6
  halfsecond loadtest --arrivals poisson --rate 6 --call-seconds 60 --seconds 600
A key for the server is taken from HALFSECOND_API_KEY.
exit status: 0 the target held at every step asked for (or a capacity was found), 1 it did not,
2 the server could not be reached or the command is wrong, 3 the tester itself was too slow"""

_MOST = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "server", nargs="?", default="ws://127.0.0.1:8080", help="sip:host:port for SIP; default: %(default)s"
    )
    parser.add_argument(
        "--protocol", choices=("twilio", "realtime", "webrtc", "sip"), default="twilio", help="default: %(default)s"
    )
    load = parser.add_argument_group("load")
    load.add_argument(
        "--calls", type=_positive, nargs="+", default=[1], metavar="N", help="calls at once, step by step"
    )
    load.add_argument("--find-capacity", action="store_true", help="from --calls on grow, bisect and repeat the edge")
    load.add_argument("--seconds", type=_seconds, default=60.0, help="length of a step (default: %(default)s)")
    load.add_argument(
        "--warm-up", type=_seconds, default=10.0, help="seconds of one call that don't count (default: %(default)s)"
    )
    load.add_argument(
        "--arrivals",
        choices=("together", "ramp", "poisson"),
        default="together",
        help="all held at once, one more and one more, or by chance as calls really come (default: %(default)s)",
    )
    load.add_argument("--rate", type=_seconds, default=6.0, help="poisson: calls a minute (default: %(default)s)")
    load.add_argument("--call-seconds", type=_seconds, default=60.0, help="poisson: mean length (default: %(default)s)")
    callers = parser.add_argument_group("callers")
    callers.add_argument(
        "--script",
        nargs="+",
        default=["dialogue"],
        metavar="NAME",
        help="behaviour: dialogue, answers, outbound, interrupter, numbers, silent or a .toml file; NAME:3: thrice",
    )
    callers.add_argument("--recordings", type=Path, metavar="DIR", help="manifest.jsonl and the recordings it names")
    callers.add_argument("--seed", type=int, default=0, help="order of the recordings and pauses")
    callers.add_argument("--workers", type=_positive, default=1, help="processes that make the calls (default: 1)")
    result = parser.add_argument_group("result")
    result.add_argument("--slo", type=_target, default="p95<=800ms", help="target (default: %(default)s)")
    result.add_argument("--json", type=Path, metavar="FILE", help="write every turn here")
    result.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots here")


def _positive(text: str) -> int:
    value = int(text)
    if not 1 <= value <= _MOST:
        raise argparse.ArgumentTypeError(f"must be 1 to {_MOST}, not {value}")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"must be 0 to 86400, not {text}")
    return value


def _target(text: str) -> "Target":
    """`p95<=800ms`, `p90 <= 1.2s`, or milliseconds alone for p95."""
    from loadtest.load import Target

    found = re.fullmatch(r"\s*(?:p(\d+(?:\.\d+)?)\s*<=?\s*)?(\d+(?:\.\d+)?)\s*(ms|s)?\s*", text)
    if not found or not 0 < float(found[1] or 95) < 100:
        raise argparse.ArgumentTypeError(f"must be as in p95<=800ms, not {text!r}")
    return Target(float(found[1] or 95) / 100, float(found[2]) / (1 if found[3] == "s" else 1000))


def run(options: argparse.Namespace) -> int:
    """Run the command; returns its exit status."""
    try:
        from loadtest.steps import Steps
    except ImportError as error:
        print(f"halfsecond: {error.name} is missing; run `pip install halfsecond[bench]`", file=sys.stderr)
        return 2
    if options.server.startswith("sip:"):
        options.protocol = "sip"
    elif options.protocol == "sip":
        options.server = "sip:127.0.0.1:5060"
    try:
        steps = Steps(options, os.environ.get("HALFSECOND_API_KEY", ""))
    except (OSError, ValueError) as error:
        print(f"halfsecond: nothing to say: {error}", file=sys.stderr)
        return 2
    try:
        asyncio.run(steps.run())
    except KeyboardInterrupt:
        print("interrupted: the steps so far are kept", file=sys.stderr)
    _write(options, steps)
    return _status(options, steps)


def _write(options: argparse.Namespace, steps: "Steps") -> None:
    from loadtest.report import page

    if options.json is None and options.html is None:
        return
    result = steps.result()
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1))
    if options.html is not None:
        options.html.write_text(page(result))
        print(f"report: {options.html}")


def _status(options: argparse.Namespace, steps: "Steps") -> int:
    loads = steps.loads
    if not loads or any(load.unreachable for load in loads):
        return 2
    if not all(load.counts for load in loads):
        return 3
    return 0 if options.find_capacity or all(load.holds(options.slo) for load in loads) else 1
