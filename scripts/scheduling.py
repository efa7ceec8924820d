"""What each rule of the order of work gains, by the twin: p95 of voice-to-voice with all rules and without one.

python -m scripts.scheduling                        times of the machine that docs/capacity.md speaks of
python -m scripts.scheduling --measured one.json    of `halfsecond loadtest --calls 1 --json one.json`
"""

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from budget.measured import model
from budget.processors import cores
from budget.twin import RULES, Cost, Machine, Rules, Talk, Target, capacity, latency
from budget.unit_costs import TALK, UnitCosts, twin

_DOCUMENTED = UnitCosts(0.116, 0.03, 0.018, 0.069, 0.087, 0.051, 0.142)
CASES = {
    "all rules": RULES,
    "by arrival": Rules(classes=False),
    "partials not in the background": Rules(background=False),
    "partials and reading ahead at any time": Rules(sparing=False),
    "none of them": Rules(classes=False, background=False, sparing=False),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, metavar="FILE", help="result of a load test with one call")
    parser.add_argument("--calls", type=int, nargs="+", default=[2, 4, 6, 8, 10])
    options = parser.parse_args()
    machine: Machine
    cost: Cost
    talk: Talk = TALK
    if options.measured is None:
        machine, cost = twin(_DOCUMENTED, 2.0)
    else:
        machine, cost, talk = model(json.loads(options.measured.read_text()), cores=float(cores()))
    table = Table("order of work", *(f"{calls} calls" for calls in options.calls), "carries at 800 ms")
    for name, rules in CASES.items():
        times = (latency(machine, cost, talk, calls, rules=rules) for calls in options.calls)
        most = capacity(machine, cost, talk, Target(), rules=rules)
        table.add_row(name, *(f"{1000 * seconds:,.0f} ms" for seconds in times), str(most))
    Console().print(table)


if __name__ == "__main__":
    main()
