"""Fixtures: recordings, a virtual clock, and the real service in a process of its own."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import HealthCheck, settings

from tests.virtual_time import VirtualTimeLoop

# How fast examples are made or run says something of the machine, not of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

SPEECH = Path(__file__).parent / "data" / "speech"


def recording(name: str, rate: int = 16_000) -> np.ndarray:
    """A recording as float32 mono at `rate`."""
    pcm, own = soundfile.read(SPEECH / f"{name}.flac", dtype="float32", always_2d=True)
    mono = pcm.mean(axis=1)
    return np.asarray(mono if own == rate else soxr.resample(mono, own, rate), np.float32)


def manifest() -> list[dict]:
    return [json.loads(line) for line in (SPEECH / "manifest.jsonl").read_text().splitlines()]


@pytest.fixture
def run_virtual() -> Iterator[Callable]:
    """Runs a coroutine on a loop whose clock jumps to the next timer: seconds pass in milliseconds."""
    loop = VirtualTimeLoop()
    yield loop.run_until_complete
    tasks = asyncio.all_tasks(loop)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    assert not tasks, f"tasks left behind: {tasks}"


@dataclass(frozen=True)
class Server:
    """A running service."""

    port: int
    pid: int
    ready_after: float
    log: Path
    audiosocket: int = 0
    """The port on which it listens for Asterisk."""

    def url(self, path: str, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url(path), timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> float:
        """The sum of all samples of a metric."""
        lines = self.get("/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    async def idle(self) -> None:
        """Wait until the service has no call left, as its metrics say."""
        await eventually(lambda: self.metric("halfsecond_calls_active") == 0)


async def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for what another process does: there is no event of ours to wait for."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_server(tmp: Path, *arguments: str, **environment: str) -> tuple[subprocess.Popen, Server]:
    port, asterisk, log = free_port(), free_port(), tmp / "server.log"
    began = perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "voice.cli", "serve", "--port", str(port), *arguments],
        stdout=log.open("wb"),
        stderr=subprocess.STDOUT,
        env={
            **os.environ,
            "HALFSECOND_LOG_FORMAT": "json",
            "HALFSECOND_AUDIOSOCKET__PORT": str(asterisk),
            "HALFSECOND_RECORDS__DIRECTORY": str(tmp / "records"),
            **environment,
        },
    )
    server = Server(port, process.pid, 0.0, log, asterisk)
    while perf_counter() - began < 90:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended: {log.read_text()}")
        try:
            if server.get("/readyz")[0] == 200:
                return process, replace(server, ready_after=perf_counter() - began)
        except OSError:
            pass
        sleep(0.1)
    process.kill()
    raise RuntimeError(f"not ready: {log.read_text()}")


def stop_server(process: subprocess.Popen) -> int:
    process.terminate()
    try:
        return process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where a test of the running service failed, show what the service said last."""
    report = yield
    running = getattr(item, "funcargs", {}).get("server")
    if report.failed and isinstance(running, Server):
        report.sections.append(("the service's log", running.log.read_text()[-3000:]))
    return report


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The real service with the default models, shared by the end-to-end tests.

    Replies are short: they play at real time, and a model that talks for 40 s would outlast the tests' patience.
    The target is far away: tests crowd the service, and it would refuse calls while its answers are late.
    """
    flags = ("--llm.max_tokens", "40", "--call.target", "10", "--records.audio", "true")
    process, running = start_server(tmp_path_factory.mktemp("server"), *flags)
    yield running
    assert stop_server(process) == 0, running.log.read_text()[-3000:]
    assert "Traceback" not in running.log.read_text(), running.log.read_text()[-6000:]
