"""The SIP door: gives each call that comes a place or refuses it, and runs it over its leg."""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from budget.admission import Asked, Refused
from budget.errors import ConfigError, PeerError
from transport.sip.endpoint import Invitation, SipEndpoint
from transport.sip.leg import SipLeg
from transport.sip.options import Account, SipOptions
from voice.app import CallHold, Service
from voice.config import SipConfig

log = structlog.get_logger(__name__)

_BUSY, _UNAVAILABLE = 486, 503
_REASONS = {_BUSY: "Busy Here", _UNAVAILABLE: "Service Unavailable"}
_RETRY = (1.0, 5.0)
"""Seconds of Retry-After: it keeps all calls of a dispatcher away, so it is short, and not the same for everyone."""


class SipDoor:
    """Takes the calls of a SIP endpoint."""

    def __init__(self, service: Service, tasks: asyncio.TaskGroup) -> None:
        self._service, self._tasks = service, tasks
        self._random = random.Random()
        self.endpoint = SipEndpoint(
            options(service.settings.sip), self._invited, ready=lambda: service.ready, spawn=tasks.create_task
        )

    def _invited(self, invitation: Invitation) -> None:
        caller = f"{invitation.about['from']}@{invitation.address}"
        hold = self._service.hold(Asked(caller, transport=SipLeg.kind))
        if isinstance(hold, Refused):
            status = _BUSY if hold.reason.own_fault else self._service.settings.sip.refusal
            retry = math.ceil(self._random.uniform(*_RETRY)) if status == _UNAVAILABLE else None
            invitation.refuse(status, _REASONS[status], retry)
            return
        self._tasks.create_task(self._take(invitation, hold))

    async def _take(self, invitation: Invitation, hold: CallHold) -> None:
        try:
            leg = await invitation.accept()
            if leg is not None:
                await self._run(hold, leg)
        except PeerError as error:
            log.warning("sip: no call", address=invitation.address, code=error.code, error=str(error))
        finally:
            await hold.release()

    async def _run(self, hold: CallHold, leg: SipLeg) -> None:
        try:
            await leg.ready()
            await self._service.run(hold, leg)
        finally:
            self.endpoint.over(leg)


def options(config: SipConfig) -> SipOptions:
    """The endpoint's options of the operator's settings."""
    account = None
    if config.registrar:
        account = Account(
            config.registrar,
            config.user,
            config.password.get_secret_value(),
            config.domain,
            config.transports[0],
        )
    return SipOptions(
        config.host,
        config.port,
        config.transports,
        config.advertise,
        config.allow,
        {name: password.get_secret_value() for name, password in config.users.items()},
        config.realm,
        config.digest,
        config.formats,
        config.ptime,
        config.rtp_ports,
        account=account,
    )


@asynccontextmanager
async def sip(service: Service, tasks: asyncio.TaskGroup) -> AsyncIterator[SipDoor | None]:
    """Speak SIP while the body runs, if the operator wants it. Raises `ConfigError` if the port is taken."""
    config = service.settings.sip
    if not config.on:
        yield None
        return
    door = SipDoor(service, tasks)
    try:
        await door.endpoint.start()
    except OSError as error:
        await door.endpoint.stop()
        raise ConfigError(
            f"SIP can't listen on {config.host}:{config.port}: {error.strerror or error}; set sip.port"
        ) from error
    try:
        log.info("sip", host=config.host, port=config.port, over=list(config.transports), account=config.user or None)
        yield door
    finally:
        await door.endpoint.stop()
