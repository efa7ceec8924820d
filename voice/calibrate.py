"""How many threads each engine should use on this machine: a short measurement, kept for the next start.

More threads are not faster by themselves: engines that work in steps of a few milliseconds lose more
at handing work over than they gain (on two cores Whisper's decoder took 3.8 ms a token with one
thread, 10.4 with two), and a thread that one engine takes, another waits for. So a count must pay
for itself: each doubling has to save a quarter of the time.
"""

import asyncio
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import structlog

from asr.whisper import WhisperRecognizer
from budget.processors import cores
from budget.scheduler import Scheduler
from budget.unit_costs import CoresUsed
from llm.chat import Message, ReplyOptions
from llm.llama import LlamaModel
from tts.piper import PiperSynthesizer
from tts.speech import Voice
from voice.config import Settings
from voice.kept import keep, recall
from voice.model_paths import llama_file, piper_file, whisper_folder
from voice.warmup import known_clip

log = structlog.get_logger(__name__)

GAIN = 3 / 4
"""The share of the time that twice the threads may take at most, to be worth it."""
_LEAST_TIMES, _MOST_TIMES, _LONG_ENOUGH = 3, 12, 0.6
"""Runs of one piece of work; short pieces are run more often, until that took so many seconds."""


@dataclass(frozen=True)
class Timing:
    """The best of a few runs of one engine's typical work: seconds, with so many threads."""

    engine: str
    threads: int
    seconds: float


@dataclass(frozen=True)
class Calibration:
    """What was measured, on which machine with which models."""

    machine: str
    timings: tuple[Timing, ...]

    def threads(self, engine: str) -> int:
        """The thread count to use; 1 for an engine that was not measured."""
        return choose([timing for timing in self.timings if timing.engine == engine])


def choose(timings: Sequence[Timing]) -> int:
    """The most threads of which each doubling saved a quarter of the time."""
    best: Timing | None = None
    for timing in sorted(timings, key=lambda timing: timing.threads):
        if best is None or timing.seconds <= best.seconds * GAIN:
            best = timing
        else:
            break
    return best.threads if best is not None else 1


def candidates(cores: int) -> tuple[int, ...]:
    """1, 2, 4, ... up to the cores there are, 8 at most."""
    return tuple(n for n in (1, 2, 4, 8) if n <= max(1, cores))


def machine(settings: Settings) -> str:
    """Names what a calibration holds for: processor, cores and models."""
    models = (
        f"{settings.asr.path or settings.asr.model}, {settings.llm.path or settings.llm.model}, {settings.tts.path}"
    )
    return f"{processor()}, {cores()} cores; {models}"


def processor() -> str:
    """The processor's name."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


async def calibrated(settings: Settings) -> Settings:
    """The settings with every thread count of 0 replaced by a measured one, from the last start or from now."""
    if settings.asr.threads and settings.llm.threads and settings.tts.threads:
        return settings
    known = load(settings)
    if known is None:
        log.info("measuring how many threads each engine should use; once on this machine")
        known = await measure(settings)
        save(known, settings)
    return with_threads(settings, known)


def with_threads(settings: Settings, known: Calibration) -> Settings:
    """The settings with every thread count of 0 replaced."""
    sections = {}
    for name in ("asr", "llm", "tts"):
        section = getattr(settings, name)
        if not section.threads:
            sections[name] = section.model_copy(update={"threads": known.threads(name)})
    return settings.model_copy(update=sections)


def cores_used(settings: Settings) -> CoresUsed:
    """How many cores a piece of each engine keeps busy with the thread counts of `settings`, none of which is 0.

    Threads wait for each other: two that take 0.6 of one's time keep 1.7 cores busy. Where nothing was measured, all.
    """
    known = load(settings)
    timings = known.timings if known is not None else ()

    def used(engine: str, threads: int) -> float:
        times = {timing.threads: timing.seconds for timing in timings if timing.engine == engine}
        return max(1.0, times[1] / times[threads]) if {1, threads} <= times.keys() else float(threads)

    asr, llm, tts = (used(name, getattr(settings, name).threads) for name in ("asr", "llm", "tts"))
    return CoresUsed(asr, llm, tts)


def _file(settings: Settings) -> Path:
    return settings.models.directory / "calibration.json"


def load(settings: Settings) -> Calibration | None:
    """The last calibration of this machine and these models, if there was one."""
    name = machine(settings)
    try:
        return Calibration(name, tuple(Timing(**timing) for timing in recall(_file(settings), name)))
    except TypeError:
        return None


def save(known: Calibration, settings: Settings) -> None:
    """Keep it for the next start."""
    keep(_file(settings), known.machine, [asdict(timing) for timing in known.timings])


async def measure(settings: Settings, progress: Callable[[str], None] = lambda _: None) -> Calibration:
    """Measure every local engine with each thread count: some five seconds on two cores. Raises `ModelError`."""
    timings: list[Timing] = []
    for threads in candidates(cores()):
        for name, engine in _engines(settings).items():
            progress(f"{name}, {threads} thread{'s' if threads > 1 else ''}")
            async with engine(threads) as work:
                await work()
                timings.append(Timing(name, threads, await best_time(work)))
    return Calibration(machine(settings), tuple(timings))


_Engine = AbstractAsyncContextManager["Work"]
Work = Callable[[], Awaitable[None]]


def _engines(settings: Settings) -> dict[str, Callable[[int], _Engine]]:
    """What to measure with these settings: engines elsewhere, or of other kinds, are not."""
    chosen: dict[str, Callable[[int], _Engine]] = {}
    if settings.asr.device == "cpu":
        chosen["asr"] = lambda threads: _whisper(settings, threads)
    if settings.llm.engine == "llama" and not settings.llm.gpu_layers:
        chosen["llm"] = lambda threads: _llama(settings, threads)
    if settings.tts.engine == "piper":
        chosen["tts"] = lambda threads: _piper(settings, threads)
    return chosen


async def best_time(work: Work) -> float:
    """The shortest of a few runs (seconds): whatever else runs makes them longer, never shorter."""
    times: list[float] = []
    while len(times) < _LEAST_TIMES or (len(times) < _MOST_TIMES and sum(times) < _LONG_ENOUGH):
        began = perf_counter()
        await work()
        times.append(perf_counter() - began)
    return min(times)


@asynccontextmanager
async def _whisper(settings: Settings, threads: int) -> AsyncIterator[Work]:
    model = await asyncio.to_thread(
        WhisperRecognizer, whisper_folder(settings), Scheduler("calibrate"), threads=threads
    )
    request = known_clip()

    async def work() -> None:
        await asyncio.to_thread(model.decode_now, request)

    try:
        yield work
    finally:
        model.close()


@asynccontextmanager
async def _llama(settings: Settings, threads: int) -> AsyncIterator[Work]:
    model = await asyncio.to_thread(LlamaModel, llama_file(settings), slots=1, context=512, threads=threads)
    session = model.open()
    assert session is not None
    asked = ["How is the weather in the city today?", "Can you tell me when the next train leaves?"]

    async def work() -> None:
        asked.reverse()
        options = ReplyOptions(temperature=0.0, max_tokens=8)
        async for _ in session.reply([Message("system", "Answer briefly."), Message("user", asked[0])], options):
            pass

    try:
        yield work
    finally:
        await session.close()
        await model.close()


@asynccontextmanager
async def _piper(settings: Settings, threads: int) -> AsyncIterator[Work]:
    voice = PiperSynthesizer(piper_file(settings), threads=threads)

    async def work() -> None:
        async for _ in voice.speak("One moment, please.", Voice()):
            pass

    try:
        yield work
    finally:
        await voice.close()
