"""`halfsecond plan`: how many calls a machine will carry, by the twin, without calling it."""

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from budget.devices import DEVICES, cost, machine
from budget.measured import model
from budget.twin import Cost, Machine, Talk, Target, capacity, latency

DESCRIPTION = """\
Simulates calls on this machine, or on known GPUs, and tells how many are answered in
time. For this machine it needs its own times: what `halfsecond loadtest --calls 1
--seconds 240 --json FILE` measured. For GPUs it reckons with published figures."""

EXAMPLES = """\
examples:
  halfsecond loadtest --calls 1 --seconds 240 --json one.json
  halfsecond plan --measured one.json                    capacity, and latency at 1 2 4 8 calls
  halfsecond plan --measured one.json --calls 6 --slo 600
  halfsecond plan --device rtx4090 8xh100 --calls 10 100 1000"""


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
    parser.add_argument("--measured", type=Path, metavar="FILE", help="result of a load test with one call")
    parser.add_argument("--device", nargs="+", choices=sorted(DEVICES), default=[], help="GPUs to plan for")
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N", help="default: 1 2 4 8")
    parser.add_argument("--slo", type=float, default=800.0, metavar="MS", help="target for p95 (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns its exit status."""
    planned: list[Planned] = []
    if options.measured is not None:
        try:
            measured = json.loads(options.measured.read_text())
            here = model(measured, cores=float(os.cpu_count() or 1))
            planned.append(Planned("this machine", *here, "measured"))
        except (OSError, ValueError) as error:
            print(f"halfsecond: {options.measured} can't be used: {error}", file=sys.stderr)
            return 2
    for name in options.device:
        device = DEVICES[name]
        planned.append(Planned(name, machine(device), cost(device), Talk(), f"published: {device.published}"))
    if not planned:
        print("halfsecond: nothing to plan for: give --measured FILE or --device NAME", file=sys.stderr)
        return 2
    console = Console()
    with console.status("simulating"):
        found = [_figures(one, options.calls, Target(seconds=options.slo / 1000)) for one in planned]
    console.print(_table(found, options.calls, options.slo))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


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
