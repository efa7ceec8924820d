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
from tts import kokoro, piper
from vad import smart_turn
from voice.catalogue import CATALOGUE
from voice.config import Settings
from voice.model_paths import llama_file, piper_file, smaller_whisper_folder, whisper_folder

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
    if settings.tts.engine == "kokoro":
        folder = settings.tts.path or CATALOGUE.folder("kokoro", settings.models.directory)
        plan.append(kokoro.reservation(folder / "kokoro.onnx"))
    else:
        plan.append(piper.reservation(piper_file(settings)))
    if settings.vad.turn_end == "meaning":
        model = settings.vad.path or CATALOGUE.file("smart-turn", settings.models.directory)
        plan.append(smart_turn.reservation(model))
    return plan


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
