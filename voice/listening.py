"""The HTTP port: opened at once, with room for a crowd that is let in a few at a time."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

_AT_ONCE = 16
"""Connections taken in one turn of the event loop: between two turns the calls get their time."""
_WAITING = 1024
"""Connections that the system keeps for us meanwhile."""


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve `app` while the body runs; gives the port, which the system chooses for 0. Raises `OSError`."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        assert runner.server is not None
        server = await asyncio.get_running_loop().create_server(runner.server, host, port, backlog=_AT_ONCE)
        try:
            _make_room(server)
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
    finally:
        await runner.cleanup()


def _make_room(server: asyncio.Server) -> None:
    """For asyncio the backlog is also how many connections it takes in one turn; the system's shall be longer."""
    for one in server.sockets:
        with socket.socket(fileno=os.dup(one.fileno())) as same:
            same.listen(_WAITING)
