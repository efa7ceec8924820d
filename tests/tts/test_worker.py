"""The speech program's keeper: what happens to a clause when the program dies, or when the service closes it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from budget.errors import EngineError
from tests.conftest import eventually
from tts.speech import Pcm
from tts.worker import WorkerProcess

PROGRAM = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    for sample in asked["samples"]:
        sys.stdout.buffer.write(json.dumps({"id": asked["id"], "bytes": 2}).encode() + b"\\n")
        sys.stdout.buffer.write(sample.to_bytes(2, "little"))
        sys.stdout.buffer.flush()
        if asked.get("dies") and not os.path.exists(asked["dies"]):
            open(asked["dies"], "w").close()
            os._exit(7)
    if not asked.get("endless"):
        print(json.dumps({"id": asked["id"], "done": True}), flush=True)
"""
"""Speaks the protocol: a chunk of one sample each, then the end, unless it shall die once or never end."""


@asynccontextmanager
async def speech(tmp_path: Path) -> AsyncIterator[WorkerProcess]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    worker = WorkerProcess("speech", program, [])
    try:
        yield worker
    finally:
        async with asyncio.timeout(10):
            await worker.close()


async def heard(worker: WorkerProcess, request: dict, into: list[Pcm]) -> None:
    async for pcm in worker.spoken(request, 0.0):
        into.append(pcm)


def samples(chunks: list[Pcm]) -> list[int]:
    return [round(float(pcm[0]) * 32768) for pcm in chunks]


async def test_a_clause_comes_whole_and_in_order(tmp_path: Path) -> None:
    chunks: list[Pcm] = []
    async with speech(tmp_path) as worker:
        await heard(worker, {"samples": [1, 2, 3]}, chunks)
    assert samples(chunks) == [1, 2, 3]


async def test_a_clause_whose_process_died_is_spoken_from_where_it_broke_off(tmp_path: Path) -> None:
    chunks: list[Pcm] = []
    async with speech(tmp_path) as worker:
        await heard(worker, {"samples": [1, 2, 3], "dies": str(tmp_path / "died")}, chunks)
        assert worker.restarts == 1
    assert samples(chunks) == [1, 2, 3]


async def test_the_death_of_the_process_is_told_with_its_exit_code(tmp_path: Path, caplog) -> None:
    async with speech(tmp_path) as worker:
        await heard(worker, {"samples": [1], "dies": str(tmp_path / "died")}, [])
    assert "Unknown child process" not in caplog.text


async def test_closing_ends_a_clause_in_progress_and_starts_no_new_process(tmp_path: Path) -> None:
    chunks: list[Pcm] = []
    async with speech(tmp_path) as worker:
        request = {"samples": [1], "endless": True}
        clause = asyncio.get_running_loop().create_task(heard(worker, request, chunks))
        await eventually(lambda: bool(chunks))
        async with asyncio.timeout(10):
            await worker.close()
        with pytest.raises(EngineError, match="closed"):
            await clause
        assert worker.pid is None
        assert worker.restarts == 0
        with pytest.raises(EngineError, match="closed"):
            await heard(worker, {"samples": [1]}, [])
