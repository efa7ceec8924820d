"""A speech program in a process of its own, spoken to through pipes, and started again when it dies.

The program takes one JSON line a request and answers with JSON headers, each with the raw audio it
announces. What a clause lost with its process is spoken from where it broke off, so the turn survives.
"""

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from budget.deadline import Stage
from budget.deadline_lock import DeadlineLock
from budget.errors import EngineError
from budget.work import Urgency, Work
from tts.speech import Pcm

log = structlog.get_logger(__name__)

_Answer = tuple[dict[str, Any], bytes]
"""A header and the bytes that it announces."""
_Inboxes = dict[int, "asyncio.Queue[_Answer | None]"]
"""Answers of one worker that were not taken yet, by request; None: it died."""

_MOST_BYTES = 1 << 20
_URGENT = 0.05
"""Seconds until its deadline at which a clause is one that the caller waits for."""
_CHUNKS = 256
"""Sentences of one clause that may wait to be taken: whoever takes them never waits, so these are more than any has."""
PATIENCE = 20.0
"""Seconds without an answer after which the worker counts as dead."""


class WorkerProcess:
    """The worker process and the pipe to it, restarted when it dies. `name` is the engine's, for logs and errors.

    Two requests at a time: one that somebody waits for, one whose audio is not due yet; a long clause of
    one caller would else hold up the first words for another.
    """

    def __init__(
        self,
        name: str,
        program: Path,
        arguments: Sequence[str],
        *,
        patience: float = PATIENCE,
        share: Work | None = None,
    ) -> None:
        self._name, self._patience = name, patience
        self._share = share or Work()
        self._arguments = [sys.executable, "-P", str(program), *arguments]
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._listener: asyncio.Task[None] | None = None
        self._inboxes: _Inboxes = {}
        self._lanes = (DeadlineLock(), DeadlineLock())
        self._ids = itertools.count(1)
        self._closed = False
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The worker's process id while it runs."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def answers(self, request: dict[str, Any], deadline: float = float("-inf")) -> AsyncGenerator[_Answer, None]:
        """Send a request; yield (header, payload) until its last. Raises `ConnectionError` if the worker dies.

        Of those who wait the earliest `deadline` (loop seconds) goes first.
        """
        asked = asyncio.get_running_loop().time()
        urgency = Urgency.FIRST_AUDIO if deadline - asked < _URGENT else Urgency.CONTINUATION
        lane = 0 if urgency is Urgency.FIRST_AUDIO else 1
        async with self._lanes[lane].hold(deadline):
            process, inboxes = await self._running()
            assert process.stdin is not None
            number = next(self._ids)
            inbox = inboxes[number] = asyncio.Queue(_CHUNKS)
            try:
                process.stdin.write(json.dumps({**request, "id": number, "lane": lane}).encode() + b"\n")
                await process.stdin.drain()
                with self._share.piece("tts", urgency, asyncio.get_running_loop().time() - asked):
                    while True:
                        header, payload = await self._next(inbox, process)
                        if "error" in header:
                            raise EngineError(Stage.TTS, f"{self._name}: {header['error']}")
                        if header.get("done"):
                            return
                        yield header, payload
            finally:
                del inboxes[number]

    async def spoken(self, request: dict[str, Any], deadline: float) -> AsyncGenerator[Pcm, None]:
        """The audio of a request, a chunk as it comes, taken up again once if the worker dies.

        Raises `EngineError` when that fails too.
        """
        spoken = 0
        for attempt in (1, 2):
            try:
                async with contextlib.aclosing(self.answers(request, deadline)) as answers:
                    seen = 0
                    async for _, payload in answers:
                        seen += 1
                        if seen > spoken:
                            spoken += 1
                            yield np.frombuffer(payload, "<i2").astype(np.float32) / 32768.0
                return
            except (ConnectionError, OSError) as error:
                log.warning("speech died", engine=self._name, attempt=attempt, error=str(error))
                if attempt == 2:
                    raise EngineError(Stage.TTS, f"{self._name} died twice on one clause: {error}") from error

    async def close(self) -> None:
        """End the worker, which exits when its input closes, and start none again: a clause in progress fails."""
        async with self._starting:
            self._closed = True
            process, listener = self._process, self._listener
        if process is None or listener is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        await _ended(process, 3)
        await listener

    async def _running(self) -> tuple[asyncio.subprocess.Process, _Inboxes]:
        async with self._starting:
            if self._closed:
                raise EngineError(Stage.TTS, f"{self._name} is closed")
            if self._process is not None and self._process.returncode is None:
                return self._process, self._inboxes
            if self._process is not None:
                self.restarts += 1
                log.warning("speech restarted", engine=self._name, exit_code=self._process.returncode)
            self._process = await asyncio.create_subprocess_exec(
                *self._arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_MOST_BYTES
            )
            self._inboxes = {}
            self._listener = asyncio.get_running_loop().create_task(self._listen(self._process, self._inboxes))
            return self._process, self._inboxes

    async def _listen(self, process: asyncio.subprocess.Process, inboxes: _Inboxes) -> None:
        """Hand out the worker's answers until it ends, then tell everybody who waits."""
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                header: dict[str, Any] = json.loads(line)
                payload = await process.stdout.readexactly(header.get("bytes", 0))
                inbox = inboxes.get(header["id"])
                if inbox is not None:  # else its caller has gone
                    inbox.put_nowait((header, payload))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.QueueFull, ValueError) as error:
            log.warning("speech broke off", engine=self._name, error=repr(error))
        await _ended(process, 1)
        for inbox in inboxes.values():
            with contextlib.suppress(asyncio.QueueFull):
                inbox.put_nowait(None)

    async def _next(self, inbox: "asyncio.Queue[_Answer | None]", process: asyncio.subprocess.Process) -> _Answer:
        try:
            async with asyncio.timeout(self._patience):
                found = await inbox.get()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise ConnectionError(f"the {self._name} process does not answer") from None
        if found is None:
            raise ConnectionError(f"the {self._name} process ended")
        return found


async def _ended(process: asyncio.subprocess.Process, patience: float) -> None:
    """Wait until the process has ended, which it is about to; kill it if it has not after `patience` seconds.

    A kill asks for the exit status first, and takes it from asyncio when the process has just ended.
    """
    try:
        await asyncio.wait_for(process.wait(), patience)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
