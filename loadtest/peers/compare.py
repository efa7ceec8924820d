"""`make peers`: halfsecond and pipecat, the same models and callers in one run, side by side."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

from rich.console import Console
from rich.table import Table

from loadtest.arrivals import STAGGER, together
from loadtest.crew import Aim, hold
from loadtest.load import Load, Target, plain
from loadtest.process import ServiceProcess, free_port, resident
from loadtest.script import read
from loadtest.steps import line, ms

_HERE = Path(__file__).parent
_PATIENCE = 180.0


@dataclass(frozen=True)
class Measured:
    """One server under one load."""

    server: str
    load: Load
    resident: int
    """Bytes of memory of its processes behind the step."""


def environment(folder: Path, console: Console) -> Path:
    """The peers' Python, its environment made on first use (some 900 MB)."""
    python, stamp = folder / "bin" / "python", folder / ".installed"
    wanted = (_HERE / "requirements.txt").read_text()
    if not stamp.is_file() or stamp.read_text() != wanted:
        with console.status("installing pipecat into an environment of its own (some 900 MB, minutes)"):
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(_HERE / "requirements.txt")]
            subprocess.run(install, check=True)
        stamp.write_text(wanted)
    return python


@contextmanager
def running(command: list[str], port: int) -> Iterator[int]:
    """A server as a process, once it listens on `port`; gives its process number. Raises `RuntimeError` if it ends."""
    with tempfile.NamedTemporaryFile("w+", prefix="peer-", suffix=".log") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            began = perf_counter()
            while not _listens(port):
                if process.poll() is not None or perf_counter() - began > _PATIENCE:
                    raise RuntimeError(f"{command[1]} did not start:\n{Path(log.name).read_text()[-2000:]}")
                sleep(0.2)
            yield process.pid
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


async def measure(options: argparse.Namespace, console: Console) -> list[Measured]:
    """Both servers under each load, one after the other."""
    python, models = environment(options.environment, console), options.models
    llama, peer, slots = free_port(), free_port(), max(options.calls)
    gguf = next((models / "smollm2-135m").glob("*.gguf"))
    found: list[Measured] = []
    with ExitStack() as stack, console.status("starting both servers") as status:
        serving = [sys.executable, str(_HERE / "llama_server.py"), str(gguf), str(llama), str(slots)]
        llama_pid = stack.enter_context(running(serving, llama))
        pipecat = [str(python), str(_HERE / "pipecat_server.py"), str(models), str(peer), f"http://127.0.0.1:{llama}"]
        peer_pid = stack.enter_context(running(pipecat, peer))
        ours = stack.enter_context(ServiceProcess(["--call.max_calls", str(slots)]))
        servers = {
            "pipecat": (f"ws://127.0.0.1:{peer}", (llama_pid, peer_pid)),
            "halfsecond": (ours.server, (ours.pid,)),
        }
        for name, (server, _) in servers.items():
            status.update(f"{name}: warming up")
            await hold(Aim(server), together(1, 10.0, [read("dialogue")], options.seed))
        for calls in options.calls:
            for name, (server, pids) in servers.items():
                status.update(f"{name}: {calls} calls, {options.seconds:.0f} s")
                plan = together(calls, options.seconds, [read(options.script)], options.seed)
                load = await hold(Aim(server), plan, settled=STAGGER * (calls - 1))
                found.append(Measured(name, load, resident(*pids)))
                console.print(f"{name:12}{line(load, Target())}", soft_wrap=True, highlight=False)
    return found


def table(found: list[Measured]) -> Table:
    """Both side by side, with the ratio of medians."""
    made = Table(title="the same models, recordings and callers", title_justify="left")
    for column in ("calls", "server", "turns", "p50 ms", "p95 ms", "unanswered", "cut into", "GB", "p50 ratio"):
        made.add_column(column, justify="right")
    for one in found:
        theirs = next((o.load for o in found if o.server == "pipecat" and o.load.calls == one.load.calls), one.load)
        ratio = one.load.latency(0.5).value / theirs.latency(0.5).value
        made.add_row(
            str(one.load.calls),
            one.server,
            str(len(one.load.turns)),
            ms(one.load.latency(0.5).value),
            ms(one.load.latency(0.95).value),
            str(one.load.unanswered),
            str(one.load.cut_ins),
            f"{one.resident / 1e9:.2f}",
            f"{ratio:.2f}" if one.server != "pipecat" else "",
        )
    return made


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser("peers", description=__doc__)
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 2, 4], help="calls at once (default: 1 2 4)")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of a step (default: %(default)s)")
    parser.add_argument("--script", default="dialogue", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--environment", type=Path, default=Path(".venv-peers"), help="default: %(default)s")
    models = os.environ.get("HALFSECOND_MODELS_DIR", Path.home() / ".cache" / "halfsecond" / "models")
    parser.add_argument("--models", type=Path, default=Path(models), help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every turn here")
    options, console = parser.parse_args(), Console(width=120)
    found = asyncio.run(measure(options, console))
    console.print(table(found))
    if options.json:
        result = [{"server": one.server, "resident": one.resident, **plain(one.load)} for one in found]
        options.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
