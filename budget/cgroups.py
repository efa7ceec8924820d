"""Where the limits that a container or a service unit has are written: its cgroup and those above it (Linux)."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT, LISTING = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def folders(controller: str, root: Path = ROOT, listing: Path = LISTING) -> Iterator[Path]:
    """The cgroups that this process is in, each with those above it: v2's, and those of v1's `controller`."""
    with suppress(OSError):
        for line in listing.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            base = root / controllers if controllers else root
            inside = base / path.lstrip("/")
            yield from (inside, *(parent for parent in inside.parents if parent.is_relative_to(base)))
    yield root
    yield root / controller
