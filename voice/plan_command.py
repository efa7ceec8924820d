"""`halfsecond plan`: how many calls a machine will carry, by the twin, without calling it."""

import argparse
import asyncio
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from budget.devices import DEVICES, cost, machine
from budget.errors import HalfsecondError
from budget.measured import model
from budget.model_sizes import ASR, LLM, TTS
from budget.planner import Plan, Wish, plan
from budget.processors import cores
from budget.twin import Cost, Machine, Talk, Target, capacity, latency

DESCRIPTION = """\
Simulates calls on this machine, or on known GPUs, and tells how many are answered in
time, what must be in memory and what it costs. This machine is measured: shortly by
--here, better by a load test with one call (--measured). For GPUs it reckons with
published figures, and says so."""

EXAMPLES = """\
examples:
  halfsecond plan --here                                 load the models, time them, simulate
  halfsecond loadtest --calls 1 --seconds 240 --json one.json
  halfsecond plan --measured one.json --calls 6 --slo 600
  halfsecond plan --device rtx4090 8xh100 --calls 10 100 1000
  halfsecond plan --gpu rtx4090 --calls 100 --asr large-v3-turbo --llm qwen2.5-7b-awq --tts kokoro"""

GB, MB = 1e9, 1e6


@dataclass(frozen=True)
class Planned:
    """One machine to plan for, and what its figures rest on."""

    name: str
    machine: Machine
    cost: Cost
    talk: Talk
    rests_on: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    what = parser.add_argument_group("what to plan for")
    what.add_argument("--here", action="store_true", help="this machine: load the models and time them")
    what.add_argument("--measured", type=Path, metavar="FILE", help="this machine: result of a load test with one call")
    what.add_argument("--device", nargs="+", choices=sorted(DEVICES), default=[], help="GPUs, by time alone")
    what.add_argument("--gpu", choices=sorted(DEVICES), help="a GPU with chosen models: memory, cards, cost")
    parser.add_argument("--calls", type=_calls, nargs="+", default=[1, 2, 4, 8], metavar="N", help="default: 1 2 4 8")
    parser.add_argument("--slo", type=float, default=800.0, metavar="MS", help="target for p95 (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    chosen = parser.add_argument_group("with --gpu")
    chosen.add_argument("--asr", choices=sorted(ASR), default="large-v3-turbo", help="default: %(default)s")
    chosen.add_argument("--llm", choices=sorted(LLM), default="qwen2.5-7b-awq", help="default: %(default)s")
    chosen.add_argument("--tts", choices=sorted(TTS), default="kokoro", help="default: %(default)s")
    chosen.add_argument("--activity", type=_share, default=0.45, help="share of a call its caller talks (%(default)s)")
    chosen.add_argument("--risk", type=_share, default=0.01, help="of more active calls than lanes (%(default)s)")
    chosen.add_argument("--utilisation", type=_share, default=0.5, help="share of the month in use (%(default)s)")
    chosen.add_argument("--context", type=_calls, default=2048, help="tokens of history a call (%(default)s)")


def _calls(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100_000:
        raise argparse.ArgumentTypeError(f"must be 1 to 100000, not {value}")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, not {text}")
    return value


def run(options: argparse.Namespace) -> int:
    """Run the command; returns its exit status."""
    console = Console()
    try:
        planned = _planned(options, console)
    except (OSError, ValueError, HalfsecondError) as error:
        print(f"halfsecond: {options.measured or 'this machine'} can't be used: {error}", file=sys.stderr)
        return 2
    if not planned and options.gpu is None:
        print("halfsecond: nothing to plan for: give --here, --measured, --device or --gpu", file=sys.stderr)
        return 2
    result: list[dict[str, Any]] = []
    if planned:
        with console.status("simulating"):
            result = [_figures(one, options.calls, Target(seconds=options.slo / 1000)) for one in planned]
        console.print(_table(result, options.calls, options.slo))
    if options.gpu is not None:
        result += _for_gpu(options, console)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1))
    return 0


def _planned(options: argparse.Namespace, console: Console) -> list[Planned]:
    planned: list[Planned] = []
    if options.here:
        with console.status("loading the models and timing them"):
            planned.append(_here(console))
    if options.measured is not None:
        measured = json.loads(options.measured.read_text())
        here = model(measured, cores=float(cores()))
        planned.append(Planned("this machine", *here, "measured by a load test"))
    for name in options.device:
        device = DEVICES[name]
        planned.append(Planned(name, machine(device), cost(device), Talk(), f"published: {device.published}"))
    return planned


def _here(console: Console) -> Planned:
    """This machine with the configured models, whose memory is shown as it was found."""
    from budget.unit_costs import TALK, twin
    from voice.calibrate import calibrated, cores_used
    from voice.config import load_settings
    from voice.loading import engines
    from voice.reservations import ledger
    from voice.unit_costs import measure

    settings = load_settings(None)
    memory = ledger(settings)

    async def timed() -> tuple[Machine, Cost]:
        async with engines(settings, memory) as ready:
            return twin(await measure(ready), float(cores()), cores_used(await calibrated(settings)))

    found = asyncio.run(timed())
    console.print(memory.table(), highlight=False)
    return Planned("this machine", *found, TALK, "measured just now")


def _for_gpu(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    found = []
    for calls in options.calls:
        wish = Wish(
            calls,
            options.gpu,
            options.asr,
            options.llm,
            options.tts,
            activity=options.activity,
            utilisation=options.utilisation,
            risk=options.risk,
            context=options.context,
            target=Target(seconds=options.slo / 1000),
        )
        with console.status(f"simulating {calls} calls"):
            one = plan(wish)
        console.print(_gpu_table(one))
        if one.fits:
            console.print("the language model's server on each card, kept to its share; one of:", highlight=False)
            console.print(f"  {one.server.vllm()}\n  {one.server.sglang()}", highlight=False, soft_wrap=True)
        found.append(_gpu_figures(one))
    return found


def _gpu_figures(one: Plan) -> dict[str, Any]:
    return {
        "calls": one.wish.calls,
        "gpu": one.wish.gpu,
        "cards": one.cards,
        "calls_a_card_by_memory": one.by_memory,
        "calls_a_card_by_time": one.by_time,
        "lanes_a_card": one.lanes,
        "p95_ms": None if math.isinf(one.p95) else round(one.p95 * 1000),
        "yuan_a_month_owned": None if one.own is None else round(one.own),
        "yuan_a_month_rented": None if one.rent is None else round(one.rent),
        "llm_server": {"share": one.server.share, "vllm": one.server.vllm(), "sglang": one.server.sglang()},
        "rests_on": f"published: {DEVICES[one.wish.gpu].published}",
    }


def _gpu_table(one: Plan) -> Table:
    wish, device = one.wish, DEVICES[one.wish.gpu]
    title = f"{wish.calls} calls on {wish.gpu}, callers talking {wish.activity:.0%}"
    table = Table("", "", "figure", title=title, title_justify="left")
    for line in one.lines:
        table.add_row(line.engine, f"{line.bytes / GB:.2f} GB", f"published: {line.source}")
    table.add_row(
        f"a call, {wish.context} tokens", f"{one.a_call / MB:.0f} MB", f"published: {LLM[wish.llm].published}"
    )
    table.add_row("may be promised on a card", f"{one.memory / GB:.1f} GB", "5% less than it has")
    table.add_row("calls a card: by memory", str(one.by_memory), "reckoned")
    more = "or more" if one.by_time >= min(wish.calls, one.by_memory) else ""
    table.add_row("calls a card: by time", f"{one.by_time} {more}", "simulated")
    if not one.fits:
        table.add_row("cards", "none", "smaller models, or another card")
        return table
    table.add_row("cards", str(one.cards), "")
    table.add_row("recognitions at once, a card", str(one.lanes), f"exceeded {wish.risk:.0%} of the time")
    table.add_row("p95", f"{one.p95 * 1000:.0f} ms", f"simulated, published times: {device.published}")
    table.add_row(f"owned, {wish.utilisation:.0%} in use", _yuan(one.own), "published price over 3 years, and power")
    table.add_row("rented while in use", _yuan(one.rent), "published, 2-4 yuan an hour for a consumer card")
    return table


def _yuan(amount: float | None) -> str:
    return "not known" if amount is None else f"{amount:,.0f} yuan a month"


def _figures(planned: Planned, calls: list[int], target: Target) -> dict[str, Any]:
    def p95(count: int) -> float:
        return latency(planned.machine, planned.cost, planned.talk, count, share=target.share)

    return {
        "machine": planned.name,
        "rests_on": planned.rests_on,
        "capacity": capacity(planned.machine, planned.cost, planned.talk, target),
        "p95_ms": {count: round(p95(count) * 1000) for count in calls},
    }


def _table(found: list[dict[str, Any]], calls: list[int], slo: float) -> Table:
    table = Table(title=f"calls answered within {slo:.0f} ms, 95 of 100 turns (simulated)", title_justify="left")
    table.add_column("machine")
    table.add_column("calls", justify="right")
    for count in calls:
        table.add_column(f"p95 at {count}", justify="right")
    table.add_column("figures")
    for one in found:
        times = [f"{one['p95_ms'][count]} ms" for count in calls]
        table.add_row(one["machine"], str(one["capacity"]), *times, one["rests_on"])
    return table
