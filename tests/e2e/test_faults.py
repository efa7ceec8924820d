"""What must not take the service down: a flood of connections, an engine that dies in the middle of a turn."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator

import aiohttp
import numpy as np
import psutil
import pytest

from tests.conftest import Server, eventually, recording
from tests.e2e.test_service import silence, start_message, twilio_call

pytestmark = pytest.mark.models
_FLOOD = 1_000


@contextlib.asynccontextmanager
async def silent_connections(server: Server, count: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """So many connections that never say a word."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(count):
            writers.append((await asyncio.open_connection("127.0.0.1", server.port))[1])
        yield writers
    finally:
        for writer in writers:
            writer.transport.abort()


async def greeted(server: Server) -> bool:
    """Whether a caller is taken and spoken to."""
    heard: list[bytes] = []
    async with aiohttp.ClientSession() as http, http.ws_connect(server.url("/twilio")) as socket:
        await socket.send_str(start_message())
        await twilio_call(socket, silence(2.0), heard)
    return len(heard) * 0.02 > 0.5


async def test_a_thousand_connections_that_ask_for_calls_are_refused_and_leave_nothing_behind(server: Server) -> None:
    files = psutil.Process(server.pid).num_fds()
    statuses: list[int] = []
    connector = aiohttp.TCPConnector(limit=0)

    async def ask(http: aiohttp.ClientSession, stack: contextlib.AsyncExitStack) -> None:
        try:
            await stack.enter_async_context(http.ws_connect(server.url("/twilio")))
            statuses.append(101)
        except aiohttp.WSServerHandshakeError as refused:
            statuses.append(refused.status)

    async with aiohttp.ClientSession(connector=connector) as http, contextlib.AsyncExitStack() as stack:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_FLOOD):
                tasks.create_task(ask(http, stack))
        assert server.get("/healthz")[0] == 200
    assert sorted(set(statuses)) == [101, 503]
    assert statuses.count(101) <= 4
    await server.idle()
    assert await greeted(server)
    await eventually(lambda: psutil.Process(server.pid).num_fds() <= files + 2)


async def test_a_thousand_connections_that_say_nothing_keep_no_caller_out(server: Server) -> None:
    async with silent_connections(server, _FLOOD):
        assert server.get("/healthz")[0] == 200
        assert await greeted(server)
    await server.idle()


async def test_a_voice_that_is_killed_in_mid_answer_comes_back_and_the_call_goes_on(server: Server) -> None:
    heard: list[bytes] = []
    question = recording("sb_spk1_snt5", 8000)
    turns = server.metric("halfsecond_turns_total")
    async with aiohttp.ClientSession() as http, http.ws_connect(server.url("/twilio")) as socket:
        await socket.send_str(start_message())
        await twilio_call(socket, silence(3.0), heard)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kill_the_voice_while_it_speaks(server, len(heard), heard))
            tasks.create_task(twilio_call(socket, np.concatenate([question, silence(5)]), heard))
        before = len(heard)
        await twilio_call(socket, np.concatenate([question, silence(5)]), heard)
        assert (len(heard) - before) * 0.02 > 0.5, "the next question is answered"
        await socket.send_str(json.dumps({"event": "stop"}))
    await server.idle()
    assert server.metric("halfsecond_turns_total") >= turns + 2


async def kill_the_voice_while_it_speaks(server: Server, before: int, heard: list[bytes]) -> None:
    await eventually(lambda: len(heard) > before + 5)
    for child in psutil.Process(server.pid).children(recursive=True):
        if any("piper_worker" in word for word in child.cmdline()):
            os.kill(child.pid, signal.SIGKILL)
            return
    raise AssertionError("the voice has no process")
