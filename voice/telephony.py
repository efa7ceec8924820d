"""The telephone doors beside HTTP: opens their ports, lets in who may connect, runs each connection as a call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from budget.admission import Asked, Refused
from budget.errors import ConfigError, PeerError
from transport.addresses import may_connect
from transport.audiosocket import AudioSocketLeg, AudioSocketStream, await_call, close
from voice.app import Service

log = structlog.get_logger(__name__)

_BEGINNING = 64
"""Connections that may be open without a call having begun on them."""


class AudioSocketDoor:
    """Takes Asterisk's connections."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._beginning = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        address = str((writer.get_extra_info("peername") or ("",))[0])
        try:
            if not may_connect(address, self._service.settings.audiosocket.allow):
                log.warning("audiosocket: not allowed", address=address, hint="audiosocket.allow")
            elif self._beginning >= _BEGINNING:
                log.warning("audiosocket: too many connections without a call", address=address)
            else:
                await self._call(reader, writer, address)
        except PeerError as error:
            log.warning("audiosocket: no call", address=address, code=error.code, error=str(error))
        finally:
            await close(reader, writer)

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        self._beginning += 1
        try:
            leg = await await_call(reader, writer)
        finally:
            self._beginning -= 1
        hold = self._service.hold(Asked(address, transport=AudioSocketLeg.kind))
        if isinstance(hold, Refused):
            writer.write(AudioSocketStream.hang_up())
            return
        try:
            await self._service.run(hold, leg)
        finally:
            await hold.release()


@asynccontextmanager
async def audiosocket(service: Service) -> AsyncIterator[None]:
    """Listen for Asterisk while the body runs. Raises `ConfigError` if a port that was asked for is taken."""
    settings = service.settings.audiosocket
    if not settings.port:
        yield
        return
    try:
        server = await asyncio.start_server(AudioSocketDoor(service).connected, settings.host, settings.port)
    except OSError as error:
        trouble = f"AudioSocket can't listen on {settings.host}:{settings.port}: {error.strerror or error}"
        if "port" in settings.model_fields_set:
            raise ConfigError(f"{trouble}; set audiosocket.port, or 0 for none") from error
        log.warning(trouble, hint="set audiosocket.port, or 0 for none")
        yield
        return
    try:
        log.info("audiosocket", host=settings.host, port=settings.port)
        yield
    finally:
        server.close()
