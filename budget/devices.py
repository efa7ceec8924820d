"""What known devices can do, for planning beyond this machine: figures that were published, not measured here.

The models on a GPU are those that suit one: Whisper large-v3-turbo in INT8, an 8 B language model in INT4, a
light voice of 80 M parameters. Times follow from the figures: reading the weights bounds a token, the times of
real time bound recognition. `halfsecond plan` says of every result that it rests on published figures; where the
service runs, `halfsecond loadtest --json` measures, and the plan takes that instead.
"""

from dataclasses import dataclass

from budget.twin import Cost, Engine, Machine, Piece

_LLM_BYTES = 4.7e9
"""Weights of an 8 B model in INT4, with its embeddings."""
_READ = 0.6
"""Share of the memory's bandwidth that decoding reaches."""
_TURBO = 4.0
"""How much faster large-v3-turbo is than large-v3: 4 decoder layers instead of 32; the encoder is the same."""
_TAIL, _PARTIAL = 2.5, 3.0
"""Seconds of audio in a final and in a partial decode."""


@dataclass(frozen=True)
class Device:
    """A GPU: memory bandwidth (bytes a second), and how many times faster than real time it hears large-v3 in INT8.

    `kernel` is what any piece takes at least (seconds): launches, copies, Python. `published` names the source.
    """

    name: str
    bandwidth: float
    hears: float
    published: str
    cards: int = 1
    kernel: float = 0.02


_GUIDE = "field guides to AI compute cards, 2026"
DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        Device("rtx3060", 0.36e12, 11, _GUIDE),
        Device("rtx4090", 1.0e12, 36, f"{_GUIDE}; a vendor's page for the 5090"),
        Device("l40s", 0.86e12, 36, f"{_GUIDE}; recognition taken from the 4090"),
        Device("a100", 2.0e12, 40, f"{_GUIDE}; recognition taken from the 4090"),
        Device("h100", 3.35e12, 60, f"{_GUIDE}; recognition estimated by bandwidth"),
        Device("h200", 4.8e12, 70, f"{_GUIDE}; recognition estimated by bandwidth"),
        Device("8xh100", 3.35e12, 60, f"{_GUIDE}; recognition estimated by bandwidth", cards=8),
    )
}


def cost(device: Device) -> Cost:
    """The pieces of one turn on a device."""
    token = _LLM_BYTES / (_READ * device.bandwidth)
    heard = device.hears * _TURBO

    def piece(engine: str, seconds: float) -> Piece:
        return Piece(engine, device.kernel + seconds, spread=0.3)

    return Cost(
        partial=piece("asr", _PARTIAL / heard),
        ahead=piece("llm", token),
        final=piece("asr", _TAIL / heard),
        judge=piece("turn", 0.0),
        first_words=piece("llm", 9 * token),
        first_clause=piece("tts", 0.02),
        more_words=piece("llm", 25 * token),
        more_clauses=piece("tts", 0.04),
    )


def machine(device: Device) -> Machine:
    """A host and its cards: each engine works in batches, one at a time on each card; host work is not modelled."""
    engines = (
        Engine("asr", workers=device.cards, batch=16, each=0.15),
        Engine("llm", workers=device.cards, batch=64, each=0.02),
        Engine("tts", workers=device.cards, batch=16, each=0.1),
        Engine("turn", workers=4 * device.cards),
    )
    return Machine(cores=4.0 * device.cards, engines=engines, media=0.0)
