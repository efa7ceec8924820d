"""Memory that is promised before it is used: what each engine declares, and the ledger that adds it up.

Every engine says before it loads what it will hold on its device: weights, workspace, and bytes for
each call. The ledger refuses a plan that does not fit, keeps what each engine really took beside
what it declared, and gives each call its bytes at admission. Nothing is ever promised twice: activity
ratios count for time, never for memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from budget.errors import ReservationError

MB = 1_000_000
GUARD = 0.05
"""Share of a device that is never promised: fragments, the runtime's own needs."""


@dataclass(frozen=True)
class Device:
    """Where memory is: `total` bytes that this process may use, whoever else is there already left out."""

    name: str
    total: int

    @property
    def usable(self) -> int:
        """Bytes that may be promised."""
        return int(self.total * (1 - GUARD))


@dataclass(frozen=True)
class Reservation:
    """What one engine will hold on a device: bytes for its weights, for work in progress, and for each call.

    `external`: another program holds it, such as the language model's own server.
    """

    engine: str
    device: str
    weights: int
    workspace: int
    per_call: int = 0
    external: bool = False

    def bytes(self, calls: int) -> int:
        """All of it, with so many calls."""
        return self.weights + self.workspace + self.per_call * calls


@dataclass(frozen=True)
class Row:
    """One line of the ledger, in bytes; `measured` is None until the engine is loaded and warm."""

    engine: str
    device: str
    reserved: int
    measured: int | None


class MemoryLedger:
    """All reservations of the process, for at most `calls` calls."""

    def __init__(self, devices: Sequence[Device], reservations: Sequence[Reservation], *, calls: int) -> None:
        """Raises `ReservationError`, with the table and what to change, if the plan does not fit."""
        self._devices = {device.name: device for device in devices}
        self._reservations = tuple(reservations)
        self._calls, self._held = calls, 0
        self._measured: dict[str, int] = {}
        unknown = sorted({r.device for r in reservations} - set(self._devices))
        if unknown:
            raise ReservationError(
                f"no device {', '.join(unknown)} on this machine; there is {', '.join(self._devices)}"
            )
        short = [device for device in devices if self.promised(device.name) > device.usable]
        if short:
            raise ReservationError(_refusal(self, short))

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices, as they were given."""
        return tuple(self._devices.values())

    @property
    def held(self) -> int:
        """Calls that have their bytes now."""
        return self._held

    @property
    def room(self) -> bool:
        """Whether one more call's bytes are left."""
        return self._held < self._calls

    def promised(self, device: str, calls: int | None = None) -> int:
        """Bytes promised on a device, with all the calls of the plan or with so many."""
        count = self._calls if calls is None else calls
        return sum(r.bytes(count) for r in self._reservations if r.device == device)

    def own(self, device: str) -> int:
        """Bytes promised to our own programs on a device, with all the calls of the plan."""
        return sum(r.bytes(self._calls) for r in self._reservations if r.device == device and not r.external)

    def most_calls(self, device: Device) -> int:
        """How many calls would fit on a device; 0 if not even the engines do."""
        fixed = self.promised(device.name, 0)
        each = self.promised(device.name, 1) - fixed
        if fixed + each > device.usable:
            return 0
        return (device.usable - fixed) // each if each else self._calls

    def hold(self) -> bool:
        """Reserve the bytes of one call; False if none are left."""
        if not self.room:
            return False
        self._held += 1
        return True

    def give_back(self) -> None:
        """The call is over. Raises `ReservationError` if no call holds anything: somebody counted wrong."""
        if self._held == 0:
            raise ReservationError("a call's memory was given back twice")
        self._held -= 1

    def measured(self, engine: str, taken: int) -> None:
        """What the engine was found to hold (bytes), warm and with all its calls' memory in use."""
        self._measured[engine] = taken

    def over(self) -> tuple[Row, ...]:
        """The engines that hold more than they declared."""
        return tuple(row for row in self.rows() if row.measured is not None and row.measured > row.reserved)

    def rows(self) -> tuple[Row, ...]:
        """The ledger, an engine a line."""
        return tuple(
            Row(r.engine, r.device, r.bytes(self._calls), self._measured.get(r.engine)) for r in self._reservations
        )

    def table(self) -> str:
        """The ledger as text: engine, device, megabytes reserved and measured; then each device."""
        lines = [f"{'engine':<12} {'device':<8} {'reserved':>10} {'measured':>10}"]
        for row in self.rows():
            seen = "-" if row.measured is None else f"{row.measured / MB:,.0f} MB"
            lines.append(f"{row.engine:<12} {row.device:<8} {row.reserved / MB:>7,.0f} MB {seen:>10}")
        for device in self.devices:
            promised = self.promised(device.name)
            free = f"{(device.usable - promised) / MB:,.0f} MB free"
            lines.append(
                f"{device.name}: {promised / MB:,.0f} MB promised of {device.usable / MB:,.0f} MB, {free}"
                f" ({device.total / MB:,.0f} MB less {GUARD:.0%})"
            )
        return "\n".join(lines)


def _refusal(ledger: MemoryLedger, short: Sequence[Device]) -> str:
    advice = []
    for device in short:
        most = ledger.most_calls(device)
        missing = (ledger.promised(device.name) - device.usable) / MB
        change = f"set call.max_calls to {most}, or llm.context lower" if most else "take smaller models"
        advice.append(f"{device.name} lacks {missing:,.0f} MB: {change}, or give it more memory")
    return "the engines don't fit into memory\n" + ledger.table() + "\n" + "\n".join(advice)
