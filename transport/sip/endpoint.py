"""The SIP endpoint: takes calls on its ports, makes calls, registers. What a call says is not its matter."""

import asyncio
from collections.abc import Callable, Mapping

import structlog
from aiortp import PortAllocator
from aiosipua import SipDigestAuth
from aiosipua.headers import parse_uri, stringify_uri
from aiosipua.registration import Registration

from budget.errors import PeerError
from transport.rtp.clock import RtpClock
from transport.rtp.formats import FORMATS
from transport.rtp.stream import Media
from transport.sip import offer
from transport.sip.leg import SipLeg
from transport.sip.lines import CalledLine, about
from transport.sip.listener import AGENT, Arrival, Listener
from transport.sip.offer import Local
from transport.sip.options import SipOptions, split_address

log = structlog.get_logger(__name__)

RING = 45.0
"""Seconds that a call of ours may ring."""
_DISCARD = 9
_RETRY = 30.0
"""Seconds until a registration that failed is tried again."""


class Invitation:
    """A call that asks to be taken: take it or refuse it, at once."""

    def __init__(self, endpoint: "SipEndpoint", arrival: Arrival) -> None:
        self._endpoint, self._arrival = endpoint, arrival
        self.about = about(arrival.call.invite)
        self.address = arrival.call.source_addr[0]

    def refuse(self, status: int, reason: str, retry_after: int | None = None) -> None:
        """Say no. `retry_after` in seconds."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self._endpoint.forget(self._arrival)
        self._arrival.refuse(status, reason, headers)

    async def accept(self) -> SipLeg | None:
        """Answer the call; None if the caller gave up meanwhile."""
        return await self._endpoint.accept(self._arrival)


class SipEndpoint:
    """Speaks SIP by `options`. `invited` is given each call that asks to be taken; `ready` answers OPTIONS."""

    def __init__(
        self,
        options: SipOptions,
        invited: Callable[[Invitation], None],
        *,
        ready: Callable[[], bool],
        spawn: Callable[..., object],
    ) -> None:
        self.options, self._invited = options, invited
        self._legs: dict[str, SipLeg] = {}
        loop = asyncio.get_running_loop()
        self._clock = RtpClock(loop.time, PortAllocator(options.rtp_ports))
        self._listeners = {
            name: Listener(name, options, self._legs, self._arrived, now=loop.time, spawn=spawn, ready=ready)
            for name in options.transports
        }
        self._registration: Registration | None = None

    async def start(self) -> None:
        """Open the ports and register. Raises `OSError` if a port is taken."""
        for listener in self._listeners.values():
            await listener.start()
        if self.options.account is not None:
            await self._register()

    async def stop(self) -> None:
        """Take the registration back and close the ports."""
        if self._registration is not None:
            self._registration.unregister()
            await asyncio.sleep(0)
        for listener in self._listeners.values():
            await listener.stop()

    @property
    def registered(self) -> bool:
        """Whether the registrar knows this endpoint."""
        return self._registration is not None and self._registration.granted_expires > 0

    # ---- calls that come -----------------------------------------------------------------------------

    def _arrived(self, arrival: Arrival) -> None:
        self._invited(Invitation(self, arrival))

    def forget(self, arrival: Arrival) -> None:
        """The call did not come to be."""
        arrival.listener.forget(arrival.call.call_id)

    async def accept(self, arrival: Arrival) -> SipLeg | None:
        """Open the call's audio and answer it; None if it was cancelled. Raises `PeerError`."""
        call, local = arrival.call, arrival.local()
        media = offer.answer(call.sdp_offer, local)[1] if call.sdp_offer is not None else self._undecided()
        try:
            leg = await SipLeg.open(about(call.invite), arrival.line, local, media, self._clock, self.options.host)
        except (RuntimeError, OSError) as error:
            arrival.refuse(503, "Service Unavailable", {})
            raise PeerError("no_ports", f"no ports for the call's audio: {error}; set sip.rtp_ports") from error
        finally:
            self.forget(arrival)
        if arrival.cancelled:
            await leg.hangup("cancelled")
            return None
        self._legs[call.call_id] = leg
        if call.sdp_offer is not None:
            call.accept(leg.negotiation.answer(call.sdp_offer))
        else:
            call.accept(leg.negotiation.offer())
        return leg

    def over(self, leg: SipLeg) -> None:
        """The call of this leg is over."""
        self._legs.pop(leg.about["call"], None)

    def _undecided(self) -> Media:
        """Until the other side has said what it speaks."""
        form = FORMATS[self.options.formats[-1]]
        return Media(form, form.payload_type, ("127.0.0.1", _DISCARD), sends=False)

    # ---- calls that we make --------------------------------------------------------------------------

    async def dial(self, target: str, *, headers: Mapping[str, str]) -> SipLeg:
        """Call a number (through the account) or a SIP URI; returns when it is answered.

        Raises `PeerError` if it is not.
        """
        listener, uri, address = await self._route(target)
        host = self.options.advertise or listener.advertised(address[0])[0]
        local = Local(host, _DISCARD, self.options.formats, self.options.ptime, str(abs(hash(target)) % 10**9))
        line = _Unanswered()
        told = {"from": self._caller(host), "to": target, "call": ""}
        leg = await SipLeg.open(told, line, local, self._undecided(), self._clock, self.options.host)
        listener.uac.advertised_addr = listener.advertised(address[0])
        account = self.options.account
        call = listener.uac.send_invite(
            self._caller(host),
            uri,
            address,
            leg.negotiation.offer(),
            extra_headers=dict(headers),
            user_agent=AGENT,
            auth=SipDigestAuth(account.user, account.password) if account else None,
            session_expires=self.options.session_expires,
        )
        line.line = CalledLine(listener.uac, call)
        told["call"] = call.call_id
        self._legs[call.call_id] = leg
        try:
            await call.wait_answered(RING)
            if call.sdp_answer is None:
                raise PeerError("not_acceptable", "the answer names no audio")
            leg.negotiation.accepted(call.sdp_answer)
        except (TimeoutError, RuntimeError, PeerError) as error:
            await leg.hangup("not answered")
            raise PeerError("not_answered", str(error) or f"no answer within {RING:.0f} s") from error
        except asyncio.CancelledError:
            await leg.hangup("given up")
            raise
        finally:
            if not leg.negotiation.done:
                self.over(leg)
        return leg

    def _caller(self, host: str) -> str:
        return self.options.account.uri if self.options.account else f"sip:{AGENT}@{host}"

    async def _route(self, target: str) -> tuple[Listener, str, tuple[str, int]]:
        """By which port, to which URI and address a call goes. Raises `PeerError`."""
        account = self.options.account
        if target.startswith("sip:"):
            uri = parse_uri(target)
        elif account is None:
            raise PeerError("no_route", "a number is called through an account (sip.registrar); or give a SIP URI")
        else:
            uri = parse_uri(f"sip:{target}@{split_address(account.registrar)[0]}")
        if not uri.host:
            raise PeerError("invalid_target", f"{target[:80]!r} is no number and no SIP URI")
        where = split_address(account.registrar) if account else (uri.host, uri.port or 5060)
        name = uri.params.get("transport") or (account.transport if account else next(iter(self._listeners)))
        listener = self._listeners.get(name.lower())
        if listener is None:
            raise PeerError("no_route", f"SIP over {name} is not spoken here")
        return listener, stringify_uri(uri), await _resolved(*where)

    async def _register(self) -> None:
        account = self.options.account
        assert account is not None
        listener = self._listeners[account.transport]
        registrar = await _resolved(*split_address(account.registrar))
        listener.uac.advertised_addr = listener.advertised(registrar[0])
        self._registration = Registration(
            listener.uac,
            account.uri,
            registrar,
            expires=account.expires,
            auth=SipDigestAuth(account.user, account.password),
            user_agent=AGENT,
        )
        self._registration.on_registered = lambda r: log.info("sip: registered", as_=account.uri, s=r.granted_expires)
        self._registration.on_failed = lambda r, status, reason: self._again(f"{status} {reason}")
        self._registration.on_expired = lambda r: self._again("not renewed in time")
        self._registration.register()

    def _again(self, why: str) -> None:
        """A registration that failed is tried again; the library would give up."""
        log.warning("sip: not registered", why=why, again_in=_RETRY)
        registration = self._registration
        if registration is not None:
            asyncio.get_running_loop().call_later(_RETRY, registration.register)


class _Unanswered:
    """The line of a call of ours, there before the INVITE is."""

    line: CalledLine | None = None

    def bye(self) -> None:
        if self.line is not None:
            self.line.bye()

    def refer(self, target: str) -> None:
        if self.line is not None:
            self.line.refer(target)


async def _resolved(host: str, port: int) -> tuple[str, int]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, family=2)
    except OSError as error:
        raise PeerError("no_route", f"{host} can't be found: {error.strerror or error}") from error
    return str(found[0][4][0]), int(found[0][4][1])
