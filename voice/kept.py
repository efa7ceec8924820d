"""What was measured at earlier starts, by the machine and models that it holds for: a small file of JSON."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

_MACHINES = 8
"""So many are kept: another model is tried, and the old one's figures are still there afterwards."""


def recall(file: Path, machine: str) -> Any:
    """What was kept for this machine; None if there is nothing, or nothing that can be read."""
    return _all(file).get(machine)


def keep(file: Path, machine: str, content: object) -> None:
    """Keep it, whole or not at all; what can't be written only costs a measurement at the next start."""
    kept = _all(file)
    kept.pop(machine, None)
    kept[machine] = content
    with suppress(OSError):
        part = file.with_suffix(".part")
        part.write_text(json.dumps(dict(list(kept.items())[-_MACHINES:]), indent=1))
        part.replace(file)


def _all(file: Path) -> dict[str, Any]:
    try:
        kept = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
