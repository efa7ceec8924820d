"""The service under test as a process of its own."""

import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from time import perf_counter, sleep
from types import TracebackType

import psutil

_PATIENCE = 120.0


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resident(*pids: int) -> int:
    """Bytes of memory of these processes and all that they started."""
    processes = [one for pid in pids for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))]
    return sum(process.memory_info().rss for process in processes)


class ServiceProcess:
    """Starts `halfsecond serve` on a free port, waits until it is ready, stops it at the end.

    Its calls are recorded in a folder of their own: they are nobody's.
    """

    def __init__(self, arguments: list[str]) -> None:
        self.port = free_port()
        self.server = f"ws://127.0.0.1:{self.port}"
        self._log = Path(tempfile.mkstemp(prefix="halfsecond-", suffix=".log")[1])
        self._records = tempfile.TemporaryDirectory(prefix="halfsecond-")
        own = ["--port", str(self.port), "--audiosocket.port", "0", "--records.directory", self._records.name]
        command = [str(Path(sys.executable).with_name("halfsecond")), "serve", *own, *arguments]
        self._process = subprocess.Popen(command, stdout=self._log.open("wb"), stderr=subprocess.STDOUT)
        self.pid = self._process.pid
        self.seconds_to_ready = 0.0

    def __enter__(self) -> "ServiceProcess":
        began = perf_counter()
        while perf_counter() - began < _PATIENCE:
            if self._process.poll() is not None:
                raise RuntimeError(f"the service ended:\n{self._log.read_text()}")
            if self._ready():
                self.seconds_to_ready = perf_counter() - began
                return self
            sleep(0.05)
        self._process.kill()
        raise RuntimeError(f"the service did not become ready:\n{self._log.read_text()}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._records.cleanup()

    def metric(self, name: str, *labels: str) -> float:
        """The sum of a metric's samples that carry all `labels`, each written as in `stage="llm"`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        chosen = [line for line in lines if line.split("{")[0].split(" ")[0] == name and all(x in line for x in labels)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in chosen)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
