"""One port on which SIP is spoken: the library's user agents with what they lack, and the calls of their dialogs.

aiosipua's gaps that are closed here: the target and route of a call of ours come from its answer (RFC 3261 12.1.2), an
answer to a call that was taken back meanwhile is acknowledged and ended (9.1), session timers are used with peers that
know them (RFC 4028 9), a re-INVITE that can't be accepted leaves the call as it was (14.2), an offer may be absent and
its answer come with the acknowledgement (13.2.1), keys come by INFO too.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from aiosipua import IncomingCall, SipRequest, SipResponse, SipUAC, SipUAS
from aiosipua.dialog import Dialog, DialogState, dialog_matches
from aiosipua.headers import stringify_uri
from aiosipua.sdp import SdpMessage, parse_sdp
from aiosipua.transport import TcpSipTransport, UdpSipTransport

from budget.errors import PeerError
from transport.addresses import own_address
from transport.requests import PressKey
from transport.sip import offer
from transport.sip.leg import SipLeg
from transport.sip.lines import CallerLine
from transport.sip.offer import Local
from transport.sip.options import SipOptions
from transport.sip.screening import ALLOWED, Screening, key_of_info
from transport.sip.transactions import Address, Transactions, answer_to

log = structlog.get_logger(__name__)

logging.getLogger("aiosipua").setLevel(logging.CRITICAL)  # it tells of each broken datagram with a traceback

AGENT = "halfsecond"
_PROVISIONAL_PORT = 9
"""The discard port: in an answer that is only tried."""


class _Datagrams(asyncio.DatagramProtocol):
    """Hands datagrams to the library. Its own protocol asserts what asyncio's transports are not before Python 3.12."""

    def __init__(self, transport: "_Udp") -> None:
        self._to = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """See asyncio."""
        if data.strip():  # keep-alives of phones behind a NAT are empty lines (RFC 5626 3.5.1)
            self._to._dispatch(data, (str(addr[0]), int(addr[1])))

    def error_received(self, exc: Exception) -> None:
        """See asyncio."""
        log.info("sip: unreachable", error=str(exc))


class _Udp(UdpSipTransport):
    """The library's UDP transport with a protocol that works on every Python."""

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._udp_transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self), local_addr=self.local_addr
        )


@dataclass
class Arrival:
    """An INVITE that may become a call."""

    listener: "Listener"
    call: IncomingCall
    cancelled: bool = False

    @property
    def line(self) -> CallerLine:
        """Its signalling."""
        return CallerLine(self.listener.uas, self.listener.uac, self.call)

    def refuse(self, status: int, reason: str, headers: Mapping[str, str]) -> None:
        """Answer with a failure."""
        response = self.call.dialog.create_response(self.call.invite, status, reason)
        for name, value in headers.items():
            response.headers.set_single(name, value)
        self.call.dialog.terminate()
        self.listener.uas._calls.pop(self.call.call_id, None)  # the acknowledgement is the transaction's matter
        self.listener.transactions.send_reply(response)

    def local(self) -> Local:
        """Our side of its description, before ports are taken."""
        options = self.listener.options
        return Local(
            options.advertise or own_address(self.call.source_addr[0]),
            _PROVISIONAL_PORT,
            options.formats,
            options.ptime,
            str(abs(hash(self.call.call_id)) % 10**9),
        )


class Listener:
    """Speaks SIP on one port, over UDP or TCP."""

    def __init__(
        self,
        name: str,
        options: SipOptions,
        legs: dict[str, SipLeg],
        arrived: Callable[[Arrival], None],
        *,
        now: Callable[[], float],
        spawn: Callable[..., object],
        ready: Callable[[], bool],
    ) -> None:
        self.name, self.options = name, options
        self._legs, self._arrived, self._ready = legs, arrived, ready
        self._arrivals: dict[str, Arrival] = {}
        inner = (_Udp if name == "udp" else TcpSipTransport)(local_addr=(options.host, options.port))
        self.transactions = Transactions(
            inner=inner,
            admits=self._admits,
            acknowledged=self._acknowledged,
            answered=self._answered,
            spawn=spawn,
        )
        self.uac = SipUAC(self.transactions)
        self.uas = SipUAS(self.transactions, user_agent=AGENT, uac=self.uac, retransmit_2xx=name == "udp")
        self._screening = Screening(options, self._knows, now)
        self.uas.on_invite, self.uas.on_cancel = self._invited, self._cancelled
        self.uas.on_bye = lambda call, request: self._over(call, "caller hung up")
        self.uas.on_ack_timeout = lambda call: self._over(call, "no acknowledgement")
        self.uas.on_session_expired = lambda call: self._over(call, "session expired")
        self.uas.on_reinvite, self.uas.on_update, self.uas.on_options = self._reinvited, self._updated, self._pinged
        self.uas.on_transfer_progress = self._transfer_progress

    async def start(self) -> None:
        """Open the port. Raises `OSError` if it is taken."""
        await self.uas.start()

    async def stop(self) -> None:
        """Close the port."""
        await self.uas.stop()

    def forget(self, call_id: str) -> None:
        """The call is over, or never was."""
        self._arrivals.pop(call_id, None)

    # ---- requests ----------------------------------------------------------------------------------

    def _admits(self, request: SipRequest, address: Address) -> bool:
        """Whether the library's user agent is to see a request."""
        refusal = self._screening.refusal(request, address)
        if refusal is not None:
            self.transactions.send_reply(refusal)
            return False
        if request.method == "INFO":
            self._informed(request)
            return False
        if request.method == "INVITE":
            self._prepare(request, address)
        return True

    def _knows(self, call_id: str, tag: str) -> bool:
        incoming, dialog = self.uas._find_dialog(call_id)
        dialog = dialog or (incoming.dialog if incoming else None)
        return dialog is not None and (not tag or dialog.local_tag == tag)

    def _prepare(self, invite: SipRequest, address: Address) -> None:
        """What the library takes from its own attributes, and would take the same for every peer."""
        knows_timers = invite.get_header("session-expires") is not None or any(
            "timer" in value.lower() for value in invite.headers.get("supported")
        )
        self.uas.session_expires = self.options.session_expires if knows_timers else None
        self.uas.advertised_addr = self.advertised(address[0])
        if invite.body and invite.content_type is not None:
            invite.set_header("Content-Type", invite.content_type.split(";")[0].strip().lower())

    def advertised(self, towards: str) -> Address:
        """The address of this port as a peer reaches it."""
        return self.options.advertise or own_address(towards), self.transactions.local_addr[1]

    def _invited(self, call: IncomingCall) -> None:
        arrival = Arrival(self, call)
        try:
            if call.sdp_offer is not None:
                offer.answer(call.sdp_offer, arrival.local())
        except PeerError as error:
            arrival.refuse(488, "Not Acceptable Here", {"Warning": f'399 {AGENT} "{error}"'.replace("\n", " ")})
            return
        self._arrivals[call.call_id] = arrival
        self._arrived(arrival)

    def _cancelled(self, request: SipRequest, address: Address) -> None:
        arrival = self._arrivals.pop(request.call_id or "", None)
        if arrival is not None:
            arrival.cancelled = True

    def _over(self, call: IncomingCall, reason: str) -> None:
        if (leg := self._legs.get(call.call_id)) is not None:
            leg.ended(reason)

    def _reinvited(self, call: IncomingCall) -> None:
        leg = self._legs.get(call.call_id)
        try:
            if leg is None:
                raise PeerError("no_call", "the call is just beginning")
            call.accept(
                leg.negotiation.answer(parse_sdp(call.invite.text)) if call.invite.body else leg.negotiation.offer()
            )
        except PeerError:
            refusal = call.dialog.create_response(call.invite, 488, "Not Acceptable Here")
            self.transactions.send_reply(refusal)

    def _updated(self, call: IncomingCall, request: SipRequest) -> SdpMessage | None:
        leg = self._legs.get(call.call_id)
        if leg is None or not request.body:
            return None
        try:
            return leg.negotiation.answer(parse_sdp(request.text))
        except PeerError:
            return None

    def _acknowledged(self, ack: SipRequest) -> None:
        """The answer to an offer of ours comes with the acknowledgement."""
        leg = self._legs.get(ack.call_id or "")
        if leg is None or not ack.body or not leg.negotiation.pending:
            return
        try:
            leg.negotiation.accepted(parse_sdp(ack.text))
        except (PeerError, ValueError) as error:
            log.warning("sip: an answer that can't be used", error=str(error))
            leg.ended("no common format")

    def _informed(self, request: SipRequest) -> None:
        _, dialog = self.uas._find_dialog(request.call_id or "")
        leg = self._legs.get(request.call_id or "")
        if dialog is None or leg is None or not dialog_matches(dialog, request):
            self.transactions.send_reply(answer_to(request, 481, "Call/Transaction Does Not Exist"))
            return
        key = key_of_info(request)
        if key is None and request.body:
            self.transactions.send_reply(answer_to(request, 415, "Unsupported Media Type"))
            return
        self.transactions.send_reply(dialog.create_response(request, 200, "OK"))
        if key is not None:
            leg.put(PressKey(key))

    def _pinged(self, request: SipRequest, address: Address) -> None:
        """OPTIONS: dispatchers ask in this way whether calls may be sent here."""
        headers = {"Allow": ALLOWED, "Accept": "application/sdp", "User-Agent": AGENT}
        if self._ready():
            self.transactions.send_reply(answer_to(request, 200, "OK", **headers))
        else:
            self.transactions.send_reply(answer_to(request, 503, "Service Unavailable", **headers))

    def _transfer_progress(self, call_id: str, status: int, reason: str) -> None:
        if (leg := self._legs.get(call_id)) is not None:
            leg.referral.went(status)

    # ---- answers to requests of ours ---------------------------------------------------------------

    def _answered(self, response: SipResponse) -> None:
        method = response.cseq.method.upper() if response.cseq else ""
        call_id = response.call_id or ""
        if method == "REFER" and (leg := self._legs.get(call_id)) is not None:
            leg.referral.went(response.status_code)
        if method != "INVITE" or not 200 <= response.status_code < 300:
            return
        dialog = _answered_dialog(response)
        call = self.uac.get_call(call_id)
        if call is None:
            self._end_unwanted(dialog)
        elif call.dialog.state is DialogState.EARLY:
            call.dialog.remote_target = dialog.remote_target or call.dialog.remote_target
            call.dialog.route_set = dialog.route_set

    def _end_unwanted(self, dialog: Dialog) -> None:
        """An answer came to a call that is over already: acknowledge it and hang up."""
        host, port = self.advertised(dialog.metadata["towards"])
        target = (dialog.metadata["towards"], int(dialog.metadata["port"]))
        number = dialog.local_cseq
        ack = dialog.create_request("ACK", via_host=host, via_port=port)
        ack.set_header("CSeq", f"{number} ACK")
        self.transactions.send(ack, target)
        self.transactions.send(dialog.create_request("BYE", via_host=host, via_port=port), target)


def _answered_dialog(response: SipResponse) -> Dialog:
    """The dialog that an answer to an INVITE of ours makes (RFC 3261 12.1.2)."""
    ours, theirs = response.from_addr, response.to_addr
    contact = response.contact[0].uri if response.contact else None
    return Dialog(
        call_id=response.call_id or "",
        local_tag=(ours.tag if ours else None) or "",
        remote_tag=(theirs.tag if theirs else None) or "",
        local_uri=stringify_uri(ours.uri) if ours else "",
        remote_uri=stringify_uri(theirs.uri) if theirs else "",
        remote_target=stringify_uri(contact) if contact else "",
        route_set=list(reversed(response.headers.get("record-route"))),
        local_cseq=response.cseq.seq if response.cseq else 1,
        state=DialogState.CONFIRMED,
        metadata={
            "towards": contact.host if contact else "127.0.0.1",
            "port": str((contact.port if contact else None) or 5060),
        },
    )
