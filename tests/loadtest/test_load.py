"""The load tester against a server that answers after a known time, cuts in, stalls, refuses or is silent."""

import argparse
import asyncio
import base64
import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve

from loadtest import command
from loadtest.load import hold
from loadtest.telephone import FRAME, RATE, decode, encode

TONE = (0.3 * np.sin(2 * np.pi * 400 * np.arange(RATE) / RATE)).astype(np.float32)
SAID = [("tone", TONE)]


@dataclass(frozen=True)
class Behaviour:
    """How the server treats its callers (seconds)."""

    delay: float = 0.3
    answers: bool = True
    cuts_in_after: float = float("inf")
    stall: float = 0.0
    refuses: bool = False


@asynccontextmanager
async def server(behaviour: Behaviour) -> AsyncGenerator[str, None]:
    async def answer(socket: ServerConnection, ended: float) -> None:
        await asyncio.sleep(ended + behaviour.delay - asyncio.get_running_loop().time())
        for half in (TONE[: RATE // 5], TONE[: RATE // 5]):
            for i in range(0, len(half), FRAME):
                audio = base64.b64encode(encode(half[i : i + FRAME])).decode()
                await socket.send(json.dumps({"event": "media", "media": {"payload": audio}}))
            await asyncio.sleep(len(half) / RATE + behaviour.stall if behaviour.stall else 0)

    async def handle(socket: ServerConnection) -> None:
        loop = asyncio.get_running_loop()
        spoken, pending = 0.0, False
        last = began = loop.time()
        async with asyncio.TaskGroup() as tasks:
            async for message in socket:
                event = json.loads(message)
                if event["event"] != "media":
                    continue
                now = loop.time()
                if float(np.abs(decode(base64.b64decode(event["media"]["payload"]))).max()) > 0.1:
                    began = now if not pending else began
                    last, pending = now, True
                    spoken = now - began
                    if spoken > behaviour.cuts_in_after:
                        began = float("inf")
                        tasks.create_task(answer(socket, now - behaviour.delay))
                elif pending:
                    pending = False
                    if behaviour.answers:
                        tasks.create_task(answer(socket, last))

    def refuse(connection: ServerConnection, request: object) -> object:
        if not behaviour.refuses:
            return None
        response = connection.respond(503, "all places are taken\n")
        response.headers["Retry-After"] = "7"
        return response

    async with serve(handle, "127.0.0.1", 0, process_request=refuse) as running:  # type: ignore[arg-type]
        yield f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}"


async def test_a_known_delay_is_what_it_reports() -> None:
    async with server(Behaviour(delay=0.4)) as address:
        load = await hold(address, "twilio", SAID, calls=3, seconds=5.0, stagger=0.1)
    assert len(load.turns) >= 3
    assert load.counts
    assert load.latency(0.5).value == pytest.approx(0.4, abs=0.03)
    assert (load.unanswered, load.cut_ins, load.gaps, load.refused, load.broken) == (0, 0, 0, [], [])
    assert load.holds(0.5)
    assert not load.holds(0.3)


async def test_a_server_that_never_answers_is_infinitely_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadtest.latency.PATIENCE", 0.5)
    async with server(Behaviour(answers=False)) as address:
        load = await hold(address, "twilio", SAID, calls=1, seconds=2.0)
    assert load.unanswered == len(load.turns) >= 1
    assert not load.holds(1e9)


async def test_a_server_that_speaks_over_its_callers_is_seen() -> None:
    async with server(Behaviour(cuts_in_after=0.3)) as address:
        load = await hold(address, "twilio", SAID, calls=1, seconds=2.0)
    assert load.cut_ins == len(load.turns) >= 1


async def test_a_break_inside_a_reply_is_a_gap() -> None:
    async with server(Behaviour(stall=0.2)) as address:
        load = await hold(address, "twilio", SAID, calls=1, seconds=2.0)
    assert load.gaps == len(load.turns) >= 1


async def test_a_full_server_is_quoted_with_its_retry_after() -> None:
    async with server(Behaviour(refuses=True)) as address:
        load = await hold(address, "twilio", SAID, calls=2, seconds=1.0, stagger=0.0)
    assert load.refused == ["HTTP 503, Retry-After 7"] * 2
    assert not load.unreachable
    assert not load.holds(1e9)


@pytest.fixture
def options() -> Callable[..., argparse.Namespace]:
    def parse(*flags: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        return parser.parse_args(flags)

    return parse


def test_nobody_at_the_other_end_is_said_in_a_line(options: Callable, capsys: pytest.CaptureFixture) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert command.run(options(f"ws://127.0.0.1:{port}", "--seconds", "1", "--calls", "1", "5")) == 2
    out = capsys.readouterr().out
    assert "refused" in out
    assert "5 calls" not in out, "no use in trying on"


def test_a_folder_without_recordings_is_said(options: Callable, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert command.run(options("--recordings", str(tmp_path))) == 2
    assert "--recordings" in capsys.readouterr().err
