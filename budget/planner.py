"""How many cards so many calls need, what they hold, and what they cost: pure reckoning with the twin and the ledger.

Memory bounds the calls of a card (every call's cache is there while it lasts), the twin bounds them by time,
and lanes tell how many of them are active at once with the chosen risk.
"""

import math
from dataclasses import dataclass, field

from budget.activity import overload
from budget.devices import DEVICES, Device, cost, machine
from budget.external import Server
from budget.memory import GUARD
from budget.model_sizes import ASR, CONTEXT_CUDA, LLM, PROCESSES, TTS, WORKSPACE_LLM, AsrModel, LlmModel, TtsModel
from budget.twin import Talk, Target, capacity, latency

_MONTHS = 36
"""A card is written off in three years."""
_HOURS = 730.0
"""Of a month."""
_KILOWATT_HOUR = 0.8
"""Yuan."""


@dataclass(frozen=True)
class Wish:
    """What is to be planned for. `utilisation` is the share of the month in which the machine is in use."""

    calls: int
    gpu: str = "rtx4090"
    asr: str = "large-v3-turbo"
    llm: str = "qwen2.5-7b-awq"
    tts: str = "kokoro"
    activity: float = 0.45
    utilisation: float = 0.5
    risk: float = 0.01
    context: int = 2048
    target: Target = field(default_factory=Target)


@dataclass(frozen=True)
class Line:
    """One engine on a card: bytes, and where they come from."""

    engine: str
    bytes: float
    source: str


@dataclass(frozen=True)
class Plan:
    """What one card holds and carries, how many are needed, and what they cost (yuan a month)."""

    wish: Wish
    lines: tuple[Line, ...]
    memory: float
    """Bytes that may be promised on one card; a machine of several has the models on each."""
    a_call: float
    """Bytes of one call."""
    by_memory: int
    """Calls of one card that its memory holds."""
    by_time: int
    """Calls of one card that are answered in time."""
    cards: int
    lanes: int
    """Recognitions at once on one card, exceeded with the wished risk only."""
    p95: float
    """Forecast with the calls spread over the cards (seconds); infinite where they don't fit."""
    own: float | None
    rent: float | None
    server: Server
    """The language model's own server on each card: its weights, work and context, and the calls' caches."""

    @property
    def fits(self) -> bool:
        """Whether any number of such cards can do it."""
        return self.by_memory > 0 and self.by_time > 0


def plan(wish: Wish) -> Plan:
    """Reckon. The names must be of `DEVICES`, `ASR`, `LLM` and `TTS`: raises `KeyError` otherwise."""
    device, asr, llm, tts = DEVICES[wish.gpu], ASR[wish.asr], LLM[wish.llm], TTS[wish.tts]
    lines = _lines(asr, llm, tts)
    memory = device.memory / device.cards * (1 - GUARD)
    a_call = float(llm.cache * wish.context)
    by_memory = device.cards * max(0, int((memory - sum(line.bytes for line in lines)) // a_call))
    talk = _talk(wish.activity)
    host, pieces = machine(device), cost(device, asr=asr, llm=llm, tts=tts)
    by_time = capacity(host, pieces, talk, wish.target, most=min(wish.calls, max(1, by_memory)))
    each = min(by_memory, by_time)
    cards = math.ceil(wish.calls / each) if each else 0
    share = math.ceil(wish.calls / cards) if cards else 0
    p95 = latency(host, pieces, talk, share, share=wish.target.share) if cards else math.inf
    own, rent = owned(device, wish.utilisation), rented(device, wish.utilisation)
    lanes = _lanes(share, wish.activity, wish.risk)
    return Plan(
        wish,
        lines,
        memory,
        a_call,
        by_memory,
        by_time,
        cards,
        lanes,
        p95,
        own=None if own is None else cards * own,
        rent=None if rent is None else cards * rent,
        server=_server(wish, llm, device, math.ceil(share / device.cards)),
    )


def _lines(asr: AsrModel, llm: LlmModel, tts: TtsModel) -> tuple[Line, ...]:
    return (
        Line(f"recognition ({asr.name})", asr.weights + asr.workspace, asr.published),
        Line(f"language model ({llm.name})", llm.weights + WORKSPACE_LLM, llm.published),
        Line(f"voice ({tts.name})", tts.weights + tts.workspace, tts.published),
        Line("CUDA contexts", PROCESSES * CONTEXT_CUDA, "300-600 MB a process"),
    )


def _server(wish: Wish, llm: LlmModel, device: Device, calls: int) -> Server:
    """For so many calls on one card; rounded up to whole hundredths of the card, since it gets no less."""
    needs = llm.weights + WORKSPACE_LLM + CONTEXT_CUDA + llm.cache * wish.context * calls
    card = device.memory / device.cards
    return Server(llm.repository, math.ceil(100 * needs / card) / 100 * card, card, wish.context, calls)


def _talk(activity: float) -> Talk:
    """Callers who talk this share of the time: they answer sooner or later."""
    usual = Talk()
    others = usual.answer + sum(usual.thinks) / 2
    return Talk(speaks=max(1.0, others * activity / (1 - activity)))


def _lanes(calls: int, activity: float, risk: float) -> int:
    return next((room for room in range(calls + 1) if overload(calls, activity, room) <= risk), calls)


def owned(device: Device, utilisation: float) -> float | None:
    """Yuan a month for one card of one's own: its price over three years, and power while it is used."""
    if device.price is None:
        return None
    return device.price / _MONTHS + device.watts / 1000 * _HOURS * utilisation * _KILOWATT_HOUR


def rented(device: Device, utilisation: float) -> float | None:
    """Yuan a month for one that is rented only while it is used."""
    return None if device.rent is None else device.rent * _HOURS * utilisation
