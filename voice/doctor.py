"""`halfsecond doctor`: what this machine is, what is missing, and what was measured on it."""

import asyncio
from pathlib import Path

from rich.console import Console
from rich.table import Table

from budget.errors import HalfsecondError
from budget.processors import cores
from voice.calibrate import Calibration, measure, processor, save, with_threads
from voice.catalogue import verify
from voice.config import Settings, check_exposure
from voice.models_command import needed
from voice.reservations import ledger, server

_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni")


def run(settings: Settings) -> int:
    """Print the report; exit status 1 if the service could not start."""
    console = Console()
    console.print(f"processor  {processor()}, {cores()} cores, {_flags() or 'no vector extensions that help'}")
    console.print(f"memory     {_memory()}")
    troubles, memory = _look(settings)
    for trouble in troubles:
        console.print(f"trouble    {trouble}", style="red")
    if troubles:
        return 1
    console.print(f"models     {', '.join(model.name for model in needed(settings))}: all there and good")
    console.print(memory, highlight=False)
    if (beside := server(settings)) is not None:
        console.print("start the language model's server within its share of the card; one of:", highlight=False)
        console.print(f"  {beside.vllm()}\n  {beside.sglang()}", highlight=False, soft_wrap=True)
    with console.status("measuring") as status:
        found = asyncio.run(measure(settings, lambda text: status.update(f"measuring: {text}")))
    save(found, settings)
    console.print(_table(found, settings))
    return 0


def _look(settings: Settings) -> tuple[list[str], str]:
    """What keeps the service from starting, each with what to do; and the memory that it will reserve."""
    found, memory = [], ""
    for model in needed(settings):
        bad = [f"{v.file.path} is {v.state}" for v in verify(model, settings.models.directory) if v.state != "good"]
        if bad:
            found.append(f"model {model.name}: {', '.join(bad)}; run `halfsecond models pull {model.name}`")
    if not found:
        try:
            memory = ledger(settings).table()
        except HalfsecondError as error:
            found.append(str(error))
    try:
        check_exposure(settings)
    except HalfsecondError as error:
        found.append(str(error))
    return found, memory


def _table(found: Calibration, settings: Settings) -> Table:
    """Milliseconds of each engine by threads, and the count that is used."""
    counts = sorted({timing.threads for timing in found.timings})
    table = Table(title="threads: milliseconds of a typical piece of work", title_justify="left")
    for column in ("engine", *(f"{n} thread{'s' if n > 1 else ''}" for n in counts), "used"):
        table.add_column(column)
    used = with_threads(settings, found)
    for engine, work in (("asr", "2.6 s of speech"), ("llm", "a question, 8 tokens"), ("tts", "three words")):
        timings = {timing.threads: timing for timing in found.timings if timing.engine == engine}
        if timings:
            times = (f"{timings[n].seconds * 1000:.0f} ms" for n in counts)
            own = getattr(settings, engine).threads
            table.add_row(
                f"{engine} ({work})", *times, f"{own}, set by you" if own else f"{getattr(used, engine).threads}"
            )
    return table


def _flags() -> str:
    try:
        words = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return ""
    return ", ".join(flag for flag in _FLAGS if flag in words)


def _memory() -> str:
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    except OSError:
        return "unknown"
    total, free = (int(lines[name].split()[0]) / 1e6 for name in ("MemTotal", "MemAvailable"))
    return f"{total:.1f} GB, {free:.1f} GB available"
