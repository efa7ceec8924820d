"""What the service does when something goes wrong under load, and how soon answers are in time again.

python -m scripts.disturb core                 every thread of the service gets one core less to run on
python -m scripts.disturb voice                the voice's process runs half of the time (stopped and continued)
python -m scripts.disturb calls --more 4       so many more callers come at once

Starts a service of its own and the load tester. The trouble lasts from --at to --until seconds; `calls` end there.
Prints a line for each ten seconds, the governor's level, and the time from which answers were in time for good.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from loadtest.process import ServiceProcess
from loadtest.statistics import percentile

_TARGET = 800.0
_WINDOW = 10.0
_LEAST = 10
"""Turns without which a percentile says nothing."""
_HALF = 0.01
"""Seconds that the voice is stopped, and that it then runs."""


@dataclass(frozen=True)
class Turn:
    """One turn: when its caller began to speak (seconds into the load), and the latency in ms."""

    at: float
    latency: float


@dataclass
class Watched:
    """The service's gauges, once a second: seconds, level, active calls."""

    seen: list[tuple[float, float, float]] = field(default_factory=list)


def main() -> int:
    """Run one disturbance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["core", "voice", "calls"])
    parser.add_argument("--calls", type=int, default=4, metavar="N", help="callers all the time (%(default)s)")
    parser.add_argument("--more", type=int, default=4, metavar="N", help="with `calls`: those that come (%(default)s)")
    parser.add_argument("--at", type=float, default=40.0, metavar="S", help="(%(default)s)")
    parser.add_argument("--until", type=float, default=100.0, metavar="S", help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=150.0, metavar="S", help="(%(default)s)")
    parser.epilog = "What follows -- goes to `halfsecond serve`."
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)  # argparse would take no flags behind it
    options = parser.parse_args(sys.argv[1:at])
    with ServiceProcess(sys.argv[at + 1 :]) as service:
        turns, watched = _run(options, service)
    _tell(options, turns, watched)
    return 0


def _run(options: argparse.Namespace, service: ServiceProcess) -> tuple[list[Turn], Watched]:
    watched, over = Watched(), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "load.json"
        load = _callers(service, options.calls, options.seconds, file)
        began = _when_all_are_there(service, options.calls, load)
        watcher = threading.Thread(target=_watch, args=(service, began, watched, over))
        watcher.start()
        _wait_until(began + options.at)
        length = options.until - options.at
        if options.what == "calls":
            more = _callers(service, options.more, length, Path(folder) / "more.json")
            more.wait()
        else:
            {"core": _one_core_less, "voice": _half_the_voice}[options.what](service.pid, length)
        load.wait()
        over.set()
        watcher.join()
        step = json.loads(file.read_text())["steps"][0]
    found = [Turn(turn["at_s"], turn["voice_to_voice_ms"]) for call in step["results"] for turn in call["turns"]]
    return [Turn(turn.at, math.inf if turn.latency is None else turn.latency) for turn in found], watched


def _callers(service: ServiceProcess, calls: int, seconds: float, file: Path) -> "subprocess.Popen[bytes]":
    program = Path(sys.executable).with_name("halfsecond")
    flags = f"--calls {calls} --seconds {seconds} --warm-up 0 --json {file}".split()
    return subprocess.Popen([program, "loadtest", service.server, *flags], stdout=subprocess.DEVNULL)


def _when_all_are_there(service: ServiceProcess, calls: int, load: "subprocess.Popen[bytes]") -> float:
    while service.metric("halfsecond_calls_active") < calls:
        if load.poll() is not None:
            sys.exit(f"the service took fewer than {calls} calls; try `-- --admission.capacity {calls}`")
        time.sleep(0.1)
    return time.perf_counter()


def _watch(service: ServiceProcess, began: float, watched: Watched, over: threading.Event) -> None:
    while not over.wait(1.0):
        with suppress(OSError):
            now = (service.metric(f"halfsecond_{name}") for name in ("governor_level", "calls_active"))
            watched.seen.append((time.perf_counter() - began, *now))


def _wait_until(at: float) -> None:
    time.sleep(max(0.0, at - time.perf_counter()))


def _one_core_less(pid: int, seconds: float) -> None:
    """Threads that begin meanwhile inherit it from those that begin them."""
    every = os.sched_getaffinity(pid)
    _pin(pid, set(sorted(every)[:-1]) or every)
    time.sleep(seconds)
    _pin(pid, every)


def _pin(pid: int, processors: set[int]) -> None:
    process = psutil.Process(pid)
    for one in (process, *process.children(recursive=True)):
        for thread in one.threads():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread.id, processors)


def _half_the_voice(pid: int, seconds: float) -> None:
    children = psutil.Process(pid).children(recursive=True)
    voice = next(one.pid for one in children if any("piper_worker" in word for word in one.cmdline()))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(voice, number)
            time.sleep(_HALF)


def _tell(options: argparse.Namespace, turns: list[Turn], watched: Watched) -> None:
    table = Table("seconds", "turns", "p50", "p95", "late", "governor", "calls", title=options.what)
    edges = [_WINDOW * i for i in range(math.ceil(options.seconds / _WINDOW) + 1)]
    for start, end in pairwise(edges):
        inside = [turn.latency for turn in turns if start <= turn.at < end]
        seen = [one for one in watched.seen if start <= one[0] < end]
        troubled = " *" if start < options.until and end > options.at else ""
        figures = [_ms(percentile(inside, share)) if inside else "-" for share in (0.5, 0.95)]
        late = sum(latency > _TARGET for latency in inside)
        level = max((one[1] for one in seen), default=0.0)
        active = min((one[2] for one in seen), default=0.0)
        name = f"{start:.0f}-{end:.0f}{troubled}"
        table.add_row(name, str(len(inside)), *figures, str(late), f"{level:.0f}", f"{active:.0f}")
    console = Console()
    console.print(table)
    console.print(f"* trouble from {options.at:.0f} to {options.until:.0f} s; {_recovered(options, turns)}")


def _recovered(options: argparse.Namespace, turns: list[Turn]) -> str:
    """From when on 95% of the troubled time's turns were in time: the earliest moment behind which that holds."""
    troubled = sorted((turn for turn in turns if options.at <= turn.at < options.until), key=lambda turn: turn.at)
    first = next((one.at for i, one in enumerate(troubled) if _in_time(troubled[i:])), None)
    if first is None:
        return "p95 of the turns meanwhile never came under 800 ms"
    return f"p95 of all turns from {first - options.at:.0f} s after its beginning on is under 800 ms"


def _in_time(turns: list[Turn]) -> bool:
    return len(turns) >= _LEAST and percentile([turn.latency for turn in turns], 0.95) <= _TARGET


def _ms(latency: float) -> str:
    return "never" if math.isinf(latency) else f"{latency:,.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
