"""The process: opens the port at once, loads and warms the engines, serves until told to stop, drains."""

import asyncio
import gc
import signal
from contextlib import suppress

import structlog

from budget.errors import HalfsecondError, leaf_errors
from budget.memory import MB, MemoryLedger
from budget.work import Work
from voice.app import Service
from voice.config import Settings, check_exposure
from voice.forecast import Forecast
from voice.http import build
from voice.listening import listening
from voice.loading import engines
from voice.observe import Observer, set_up_log
from voice.promise import Promise
from voice.record_keeping import records
from voice.reservations import ledger
from voice.sip_door import sip
from voice.telephony import audiosocket

log = structlog.get_logger("halfsecond")


class _StopError(Exception):
    """Ends the process's task group."""


async def serve(settings: Settings, *, started: "asyncio.Future[int] | None" = None) -> int:
    """Serve until SIGINT or SIGTERM. Raises `HalfsecondError` when it can't start.

    `started` is given the port once it is open, for callers that let the system choose one.
    """
    check_exposure(settings)
    set_up_log(settings.log_level, settings.log_format)
    observer = Observer()
    service = Service(settings, observer)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    failure: BaseException | None = None
    try:
        async with records(settings.records) as kept, asyncio.TaskGroup() as tasks:
            if kept is not None:
                observer.records, service.recorder = kept.store, kept.recorder
            tasks.create_task(observer.watch_loop())
            app = build(service, tasks, kept)
            async with audiosocket(service), sip(service, tasks), listening(app, settings.host, settings.port) as port:
                if started is not None:
                    started.set_result(port)
                await _run(settings, service, stop, f"http://{settings.host}:{port}/")
            raise _StopError
    except* _StopError:
        pass
    except* HalfsecondError as broken:
        failure = next(iter(leaf_errors(broken)))
    if failure is not None:
        raise failure
    return 0


async def _run(settings: Settings, service: Service, stop: asyncio.Event, url: str) -> None:
    log.info("loading models", url=url)
    began = asyncio.get_running_loop().time()
    memory, work = ledger(settings), Work(service.observer.work_done)
    async with engines(settings, memory, work) as ready:
        forecast = None if settings.admission.capacity else await Forecast.measured(settings, ready, work)
        carries = None if forecast is None else await forecast.first()
        promise = service.promise = Promise(settings, memory, service.observer, capacity=carries)
        async with asyncio.TaskGroup() as watches:
            watching = [watches.create_task(promise.watch())]
            if forecast is not None:
                watching.append(watches.create_task(forecast.watch(promise.admission)))
            _settle()
            service.engines = ready
            _tell(memory)
            seconds = round(asyncio.get_running_loop().time() - began, 1)
            log.info("ready", url=url, seconds=seconds)
            await stop.wait()
            log.info("stopping", calls=service.calls)
            service.engines = None
            for watch in watching:  # before the engines close: the forecast asks them for work
                watch.cancel()
            with suppress(TimeoutError):
                await service.drain()


def _settle() -> None:
    """What is there by now stays: without this each full garbage collection looks through all of it, for 100 ms."""
    gc.collect()
    gc.freeze()


def _tell(memory: MemoryLedger) -> None:
    """Log what each engine reserved and what it took; one that took more is an alarm."""
    over = {row.engine for row in memory.over()}
    for row in memory.rows():
        figures = {
            "engine": row.engine,
            "device": row.device,
            "reserved_mb": round(row.reserved / MB),
            "measured_mb": None if row.measured is None else round(row.measured / MB),
        }
        if row.engine in over:
            log.error("more memory than reserved", **figures)
        else:
            log.info("memory", **figures)
