"""What known devices can do, for planning beyond this machine: figures that were published, not measured here.

The models are those that suit a GPU (`budget.model_sizes`). Times follow from the figures: reading the weights bounds
a token, the times of real time bound recognition. Prices are the middle of the guides' ranges. `halfsecond plan`
says of every result that it rests on published figures; where the service runs, `halfsecond loadtest --json`
measures, and the plan takes that instead.
"""

from dataclasses import dataclass

from budget.model_sizes import ASR, LLM, TTS, AsrModel, LlmModel, TtsModel
from budget.twin import Cost, Engine, Machine, Piece

_READ = 0.6
"""Share of the memory's bandwidth that decoding reaches."""
_TAIL, _PARTIAL = 2.5, 3.0
"""Seconds of audio in a final and in a partial decode."""


@dataclass(frozen=True)
class Device:
    """A GPU: memory bandwidth (bytes a second), and how many times faster than real time it hears large-v3 in INT8.

    `memory` in bytes, `price` in yuan and `rent` in yuan an hour where guides give them, `watts` under load.
    `kernel` is what any piece takes at least (seconds): launches, copies, Python. `published` names the source.
    """

    name: str
    bandwidth: float
    hears: float
    published: str
    memory: float = 24e9
    price: float | None = None
    rent: float | None = None
    watts: float = 400.0
    cards: int = 1
    kernel: float = 0.02


_GUIDE = "field guides to AI compute cards, 2026"
DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        Device("rtx3060", 0.36e12, 11, _GUIDE, 12e9, watts=170),
        Device("rtx5060ti", 0.45e12, 18, f"{_GUIDE}; recognition estimated by bandwidth", 16e9, 6_000, 2.0, 180),
        Device("rtx4090", 1.0e12, 36, f"{_GUIDE}; a vendor's page for the 5090", 24e9, 18_000, 3.0, 450),
        Device("l40s", 0.86e12, 36, f"{_GUIDE}; recognition taken from the 4090", 48e9, watts=350),
        Device("a100", 2.0e12, 40, f"{_GUIDE}; recognition taken from the 4090", 80e9, 110_000),
        Device("h100", 3.35e12, 60, f"{_GUIDE}; recognition estimated by bandwidth", 80e9, 190_000, watts=700),
        Device("h200", 4.8e12, 70, f"{_GUIDE}; recognition estimated by bandwidth", 141e9, watts=700),
        Device(
            "8xh100",
            3.35e12,
            60,
            f"{_GUIDE}; recognition estimated by bandwidth",
            memory=8 * 80e9,
            price=1_500_000,
            watts=8_000,
            cards=8,
        ),
    )
}


def cost(
    device: Device,
    *,
    asr: AsrModel = ASR["large-v3-turbo"],
    llm: LlmModel = LLM["llama-3.1-8b-awq"],
    tts: TtsModel = TTS["kokoro"],
) -> Cost:
    """The pieces of one turn on a device."""
    token = llm.weights / (_READ * device.bandwidth)
    heard = device.hears * asr.speed

    def piece(engine: str, seconds: float) -> Piece:
        return Piece(engine, device.kernel + seconds, spread=0.3)

    return Cost(
        partial=piece("asr", _PARTIAL / heard),
        ahead=piece("llm", token),
        final=piece("asr", _TAIL / heard),
        judge=piece("turn", 0.0),
        first_words=piece("llm", 9 * token),
        first_clause=piece("tts", tts.first_clause - 0.02),
        more_words=piece("llm", 25 * token),
        more_clauses=piece("tts", tts.clause - 0.02),
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
