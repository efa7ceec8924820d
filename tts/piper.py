"""Piper in its own process, spoken to through pipes: it is GPL, so it is never imported here.

The worker (`piper_worker.py`) takes one JSON line a request and answers with JSON headers and raw
audio. If it dies it is started again and the clause is spoken from where it broke off, so the turn
survives; a clause that fails twice is an `EngineError`.
"""

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from budget.deadline import Stage
from budget.deadline_lock import DeadlineLock
from budget.errors import EngineError, ModelError
from budget.work import Urgency, Work
from tts.speech import Pcm, Voice

log = structlog.get_logger(__name__)

_WORKER = Path(__file__).with_name("piper_worker.py")
_MOST_BYTES = 1 << 20
_URGENT = 0.05
"""Seconds until its deadline at which a clause is one that the caller waits for."""
_PATIENCE = 20.0
"""Seconds without an answer after which the worker counts as dead."""


class PiperProcess:
    """The worker process and the pipe to it: one request at a time, restarted when it dies."""

    def __init__(self, model: Path | None, *, threads: int = 2, share: Work | None = None) -> None:
        self._share = share or Work()
        self._arguments = [sys.executable, "-P", str(_WORKER), "--threads", str(threads)]
        if model is not None:
            if not model.is_file():
                raise ModelError(f"no Piper voice at {model}; run `halfsecond models pull`")
            self._arguments += ["--model", str(model)]
        self._process: asyncio.subprocess.Process | None = None
        self._turn = DeadlineLock()
        self._ids = itertools.count(1)
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The worker's process id while it runs."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def answers(
        self, request: dict[str, Any], deadline: float = float("inf")
    ) -> AsyncGenerator[tuple[dict[str, Any], bytes], None]:
        """Send a request; yield (header, payload) until its last. Raises `ConnectionError` if the worker dies.

        Of those who wait the earliest `deadline` (loop seconds) goes first.
        """
        asked = asyncio.get_running_loop().time()
        urgency = Urgency.FIRST_AUDIO if deadline - asked < _URGENT else Urgency.CONTINUATION
        async with self._turn.hold(deadline):
            process = await self._running()
            assert process.stdin is not None and process.stdout is not None
            number = next(self._ids)
            process.stdin.write(json.dumps({**request, "id": number}).encode() + b"\n")
            with self._share.piece("tts", urgency, asyncio.get_running_loop().time() - asked):
                while True:
                    header, payload = await self._read(process)
                    if header["id"] != number:
                        continue  # the rest of an answer whose caller has gone
                    if "error" in header:
                        raise EngineError(Stage.TTS, f"Piper: {header['error']}")
                    if header.get("done"):
                        return
                    yield header, payload

    async def close(self) -> None:
        """End the worker; it exits when its input closes."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 3)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        if self._process is not None:
            self.restarts += 1
            log.warning("piper restarted", exit_code=self._process.returncode)
        self._process = await asyncio.create_subprocess_exec(
            *self._arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_MOST_BYTES
        )
        return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> tuple[dict[str, Any], bytes]:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_PATIENCE):
                assert process.stdin is not None
                await process.stdin.drain()
                line = await process.stdout.readline()
                if not line:
                    raise ConnectionError("the Piper process ended")
                header: dict[str, Any] = json.loads(line)
                return header, await process.stdout.readexactly(header.get("bytes", 0))
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, ValueError) as error:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise ConnectionError(f"the Piper process broke off: {error!r}") from error


class PiperSynthesizer:
    """One Piper voice."""

    def __init__(self, model: Path, *, threads: int = 2, share: Work | None = None) -> None:
        self._process = PiperProcess(model, threads=threads, share=share)
        config = Path(f"{model}.json")
        if not config.is_file():
            raise ModelError(f"no Piper configuration at {config}; run `halfsecond models pull`")
        described = json.loads(config.read_text())
        self.rate = int(described["audio"]["sample_rate"])
        speakers = tuple(described.get("speaker_id_map") or ())
        self._voices = speakers or (model.name.removesuffix(".onnx"),)

    @property
    def process(self) -> PiperProcess:
        """The worker, for health checks and failure tests."""
        return self._process

    def voices(self) -> tuple[str, ...]:
        """See `Synthesizer`."""
        return self._voices

    async def speak(self, text: str, voice: Voice, *, deadline: float = float("inf")) -> AsyncGenerator[Pcm, None]:
        """See `Synthesizer`. One chunk a sentence."""
        request = {"speak": text, "speed": voice.speed}
        if voice.name in self._voices and len(self._voices) > 1:
            request["speaker"] = self._voices.index(voice.name)
        spoken = 0
        for attempt in (1, 2):
            try:
                async with contextlib.aclosing(self._process.answers(request, deadline)) as answers:
                    seen = 0
                    async for _, payload in answers:
                        seen += 1
                        if seen > spoken:
                            spoken += 1
                            yield np.frombuffer(payload, "<i2").astype(np.float32) / 32768.0
                return
            except (ConnectionError, OSError) as error:
                log.warning("piper died", attempt=attempt, error=str(error))
                if attempt == 2:
                    raise EngineError(Stage.TTS, f"Piper died twice on one clause: {error}") from error

    async def warm(self) -> None:
        """See `Synthesizer`."""
        for text in ("Hello.", "One moment, please, I am getting ready to talk."):
            async for _ in self.speak(text, Voice()):
                pass

    async def close(self) -> None:
        """See `Synthesizer`."""
        await self._process.close()
