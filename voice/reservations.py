"""What the configured engines will hold, before any of them loads: the plan that the ledger checks.

Each engine declares its own; here they are put together, with what the service itself needs for its
programs and for each call (sockets, codecs, voice activity, audio on its way).
"""

from asr import whisper
from budget.external import Server
from budget.machine_memory import card, card_memory, processor_memory, resident
from budget.memory import MB, Device, MemoryLedger, Reservation
from budget.model_sizes import GB
from llm import llama
from tts import kokoro_onnx, kokoro_torch, piper
from vad import smart_turn
from voice.config import Settings
from voice.model_paths import (
    kokoro_folder,
    kokoro_weights,
    llama_file,
    piper_file,
    smaller_whisper_folder,
    smart_turn_file,
    whisper_folder,
)

CARD = "cuda:0"
_GROWS = 90 * MB
"""What the service's own process takes beside its programs: buffers, caches, fragments of the heap."""
_A_CALL = 8 * MB
"""Of a WebRTC call: codecs, DTLS, jitter buffer, and up to 30 s of speech not yet recognised."""


def reservations(settings: Settings) -> list[Reservation]:
    """The plan. Raises `ModelError` where a file that it is reckoned from is missing."""
    hears = CARD if settings.asr.device == "cuda" else "cpu"
    plan = [
        Reservation("service", "cpu", resident(), _GROWS, _A_CALL),
        whisper.reservation(whisper_folder(settings), device=hears),
    ]
    if settings.asr.smaller:
        smaller = smaller_whisper_folder(settings)
        plan.append(whisper.reservation(smaller, device=hears, engine="smaller"))
    if settings.llm.engine == "llama":
        where = CARD if settings.llm.gpu_layers else "cpu"
        plan.append(llama.reservation(llama_file(settings), context=settings.llm.context, device=where))
    elif settings.llm.card_memory:
        plan.append(Reservation("llm server", CARD, _server_bytes(settings), 0, external=True))
    plan.append(_speaks(settings))
    if settings.vad.turn_end == "meaning":
        where = CARD if settings.vad.device == "cuda" else "cpu"
        plan.append(smart_turn.reservation(smart_turn_file(settings), device=where))
    return plan


def _speaks(settings: Settings) -> Reservation:
    where = CARD if settings.tts.device == "cuda" else "cpu"
    if settings.tts.engine == "piper":
        return piper.reservation(piper_file(settings), device=where)
    if settings.tts.runtime == "torch":
        return kokoro_torch.reservation(kokoro_weights(settings), device=where)
    return kokoro_onnx.reservation(kokoro_folder(settings) / "kokoro.onnx", device=where)


def ledger(settings: Settings) -> MemoryLedger:
    """The ledger for these settings on this machine. Raises `ReservationError` if the plan does not fit."""
    devices: list[Device] = [processor_memory()]
    plan = reservations(settings)
    if any(one.device == CARD for one in plan):
        found = card_memory(server=_server_bytes(settings))
        devices += [found] if found is not None else []
    return MemoryLedger(devices, plan, calls=settings.call.max_calls)


def server(settings: Settings) -> Server | None:
    """The language model's own server on our card, and its share of it; None if there is none, or no card."""
    found = card() if settings.llm.card_memory else None
    if found is None:
        return None
    llm, calls = settings.llm, settings.call.max_calls
    return Server(llm.model, _server_bytes(settings), found.total, llm.context, calls)


def _server_bytes(settings: Settings) -> int:
    return int(settings.llm.card_memory * GB)
