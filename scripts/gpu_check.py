"""What this machine's NVIDIA card does with every engine on it: memory reserved and held, stage times, capacity.

make gpu-check                              Piper's voice, the default models
make gpu-check ARGS="--tts kokoro-torch"    Kokoro in full precision by PyTorch
make gpu-check ARGS="--asr whisper-small"   a larger recogniser (pull it first)

Takes one to three minutes. Ends with 1 if an engine holds more than it reserved, with 2 if there is no card.
"""

import argparse
import asyncio
import sys

from rich.console import Console
from rich.table import Table

from budget.errors import HalfsecondError
from budget.machine_memory import card
from budget.memory import MB, MemoryLedger
from budget.processors import cores
from budget.twin import Target, capacity, latency
from budget.unit_costs import TALK, UnitCosts, twin
from voice.calibrate import calibrated, cores_used
from voice.config import Settings, load_settings
from voice.loading import engines
from voice.observe import set_up_log
from voice.reservations import CARD, ledger
from voice.unit_costs import measure

_ALL_LAYERS = 99
_CALLS = (1, 2, 4, 8, 16)
_NO_CARD = """\
no NVIDIA card that NVML can see. It needs the driver (`nvidia-smi` shows the card), the packages of `make gpu`
and, in a container, access to the card (docker: --gpus all)."""
_PIECES = {
    "decode": "recognise a known sentence",
    "judge": "judge how it ends",
    "ahead": "read its last words ahead",
    "first_words": "first 8 tokens of the reply",
    "more_words": "its other 20",
    "first_clause": "speak a first clause",
    "clause": "speak a longer one",
}


def main() -> int:
    """Run the check; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asr", default="whisper-base", metavar="MODEL", help="(%(default)s)")
    parser.add_argument("--llm", default="smollm2-135m", metavar="MODEL", help="(%(default)s)")
    parser.add_argument("--tts", choices=["piper", "kokoro", "kokoro-torch"], default="piper", help="(%(default)s)")
    parser.add_argument("--calls", type=int, default=16, metavar="N", help="calls that get memory (%(default)s)")
    options = parser.parse_args()
    before = card()
    if before is None:
        print(f"gpu_check: {_NO_CARD}", file=sys.stderr)
        return 2
    set_up_log("warning", "console")
    console = Console()
    try:
        settings = on_card(options)
        memory = ledger(settings)
        console.print(memory.table(), "", sep="\n", highlight=False)
        with console.status("loading the models onto the card and timing them"):
            found, free = asyncio.run(_timed(settings, memory))
    except HalfsecondError as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 2
    console.print(held(memory, before.free - free), stages(found))
    return told(console, settings, memory, found)


def on_card(options: argparse.Namespace) -> Settings:
    """Settings with every engine on the card. Raises `ConfigError`."""
    engine, _, runtime = options.tts.partition("-")
    return load_settings(
        None,
        asr={"model": options.asr, "device": "cuda"},
        llm={"model": options.llm, "gpu_layers": _ALL_LAYERS},
        tts={"engine": engine, "runtime": runtime or "onnx", "device": "cuda"},
        vad={"device": "cuda"},
        call={"max_calls": options.calls},
    )


async def _timed(settings: Settings, memory: MemoryLedger) -> tuple[UnitCosts, int]:
    """The time of each piece, and what is free on the card while all engines are there (bytes)."""
    async with engines(settings, memory) as ready:
        found = await measure(ready)
        now = card()
        return found, now.free if now is not None else 0


def held(memory: MemoryLedger, taken: int) -> Table:
    """The ledger beside what NVML tells: of each engine, and of the whole card."""
    table = Table("engine", "device", "reserved", "held", "of it", title="memory", title_justify="left")
    for row in memory.rows():
        seen, share = "-", "-"
        if row.measured is not None:
            seen, share = f"{row.measured / MB:,.0f} MB", f"{row.measured / row.reserved:.0%}"
        table.add_row(row.engine, row.device, f"{row.reserved / MB:,.0f} MB", seen, share)
    promised = memory.promised(CARD)
    whole = (f"{promised / MB:,.0f} MB", f"{taken / MB:,.0f} MB", f"{taken / promised:.0%}")
    table.add_row("all, by NVML", CARD, *whole, end_section=True)
    return table


def stages(found: UnitCosts) -> Table:
    """The shortest time of each piece, alone on the machine."""
    table = Table("piece", "", "time", title="stages", title_justify="left")
    for name, what in _PIECES.items():
        table.add_row(name, what, f"{1000 * getattr(found, name):,.1f} ms")
    return table


def told(console: Console, settings: Settings, memory: MemoryLedger, found: UnitCosts) -> int:
    """Print the capacity by these times, and what is wrong; returns the exit status."""
    machine, cost = twin(found, float(cores()), cores_used(asyncio.run(calibrated(settings))))
    most = capacity(machine, cost, TALK, Target())
    table = Table("calls", "p95", title=f"capacity: {most} calls at 800 ms", title_justify="left")
    for calls in _CALLS:
        table.add_row(str(calls), f"{1000 * latency(machine, cost, TALK, calls):,.0f} ms")
    console.print(table)
    console.print(
        "Simulated from the times above, one piece of an engine at a time. Measure it with the same settings:\n"
        "  halfsecond serve ...; halfsecond loadtest --find-capacity",
        highlight=False,
    )
    for row in memory.rows():
        if row.device == CARD and row.measured == 0 and row.engine == "llama":
            console.print("[yellow]llama.cpp holds nothing on the card: this xllamacpp was built without CUDA; its")
            console.print("[yellow]project publishes a build with it, to be installed over this one.")
    for row in memory.over():
        console.print(f"[red]{row.engine} holds more than it reserved: its calls would be refused")
    return 1 if memory.over() else 0


if __name__ == "__main__":
    sys.exit(main())
