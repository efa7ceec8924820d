"""SIP's transaction layer between the library's transports and its user agents (RFC 3261 section 17), and its gaps.

aiosipua 0.7 answers a retransmitted INVITE as if it were a new request of the dialog (481), never sends a request of
its own a second time, leaves failures unacknowledged, and sends a failure once although its caller stopped repeating
the INVITE at "100 Trying". Here a request that was answered is answered with the same words again, requests and
failures are repeated over UDP until they are answered, failures are acknowledged, and over TCP answers go back
on the connection that the request came on.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from aiosipua import SipRequest, SipResponse
from aiosipua.headers import parse_via, stringify_via
from aiosipua.transport import SipTransport, TcpSipTransport

log = structlog.get_logger(__name__)

T1, T2 = 0.5, 4.0
"""Seconds: the first repetition, and the longest time between two (RFC 3261, table 4)."""
GIVE_UP = 64 * T1
MOST = 4_000
"""Transactions at once; requests beyond are dropped unanswered, as an overloaded server may."""
Address = tuple[str, int]
Key = tuple[str, str, str]


class Later(Protocol):
    """`loop.call_later`."""

    def __call__(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle:
        """Call back after so many seconds."""
        ...


@dataclass
class _Served:
    """A request that came."""

    request: SipRequest
    source: Address
    answer: SipResponse | None = None
    acknowledged: bool = False


@dataclass
class _Asked:
    """A request of ours."""

    request: SipRequest
    target: Address
    timer: asyncio.TimerHandle | None = None
    waited: float = 0.0
    proceeding: bool = False
    failed: bool = False
    """It was answered by a failure, which is acknowledged as often as it comes."""


@dataclass
class Transactions(SipTransport):
    """A transport as the library's user agents know it, over one of the library's transports."""

    inner: SipTransport = field(default_factory=SipTransport)
    later: Later | None = None
    admits: Callable[[SipRequest, Address], bool] = lambda request, address: True
    """Whether a new request goes on to the user agent; otherwise it was answered, or is not to be."""
    acknowledged: Callable[[SipRequest], None] = lambda ack: None
    """Sees each acknowledgement after the user agent did."""
    answered: Callable[[SipResponse], None] = lambda response: None
    """Sees each answer to a request of ours before the user agent does."""
    spawn: Callable[..., object] = lambda work: work.close()
    """Runs a coroutine: opening a TCP connection takes time."""

    def __post_init__(self) -> None:
        self._served: dict[Key, _Served] = {}
        self._asked: dict[Key, _Asked] = {}

    async def start(self) -> None:
        """See the library."""
        self.inner.on_message = self._receive
        await self.inner.start()
        self.local_addr = self.inner.local_addr

    async def stop(self) -> None:
        """See the library."""
        for asked in self._asked.values():
            if asked.timer is not None:
                asked.timer.cancel()
        self._asked.clear()
        await self.inner.stop()

    @property
    def _repeats(self) -> bool:
        return not self.inner.reliable

    def _in(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        later = self.later or asyncio.get_running_loop().call_later
        return later(seconds, callback)

    # ---- requests that come, and our answers --------------------------------------------------------

    def _receive(self, message: SipRequest | SipResponse, address: Address) -> None:
        try:
            if isinstance(message, SipResponse):
                self._answer_came(message, address)
            elif message.method == "ACK":
                self._acknowledged(message)
                self._pass_on(message, address)
                self.acknowledged(message)
            else:
                self._request_came(message, address)
        except (ValueError, LookupError, TypeError, AttributeError) as error:  # what parsing lazily trips over
            log.info("sip: a message that can't be read", address=address[0], error=str(error)[:200])
            if isinstance(message, SipRequest) and message.method != "ACK":
                self._refuse_unreadable(message)

    def _refuse_unreadable(self, request: SipRequest) -> None:
        try:
            self.send_reply(answer_to(request, 400, "Bad Request"))
        except (ValueError, LookupError, TypeError, AttributeError):
            return  # not even its Via can be read: there is nobody to answer

    def _request_came(self, request: SipRequest, address: Address) -> None:
        key = _key(request, request.method)
        known = self._served.get(key)
        if known is not None:
            if known.answer is not None:
                self._send_back(known.answer, known.source)
            return
        if len(self._served) >= MOST:
            return
        self._served[key] = served = _Served(request, address)
        if request.method != "INVITE":
            self._in(GIVE_UP, lambda: self._served.pop(key, None))
        if request.method == "CANCEL" and self._too_late(request):
            return
        if self.admits(request, address):
            self._pass_on(request, address)
        elif served.answer is None:
            self._served.pop(key, None)

    def _too_late(self, cancel: SipRequest) -> bool:
        """A CANCEL after the final answer changes nothing (RFC 3261 9.2); the library would forget the call."""
        invite = self._served.get(_key(cancel, "INVITE"))
        if invite is None or invite.answer is None or invite.answer.status_code < 200:
            return False
        answer = answer_to(cancel, 200, "OK")
        answer.set_header("To", invite.answer.get_header("to") or "")
        self.send_reply(answer)
        return True

    def _acknowledged(self, ack: SipRequest) -> None:
        if (served := self._served.get(_key(ack, "INVITE"))) is not None:
            served.acknowledged = True  # of a failure: one of success is a transaction of its own

    def send_reply(self, response: SipResponse) -> None:
        """Answer a request."""
        method = _method(response)
        key = _key(response, method)
        served = self._served.get(key)
        if served is None:
            self.inner.send_reply(response)
            return
        self._name_transport_in_contact(response)
        first = served.answer is None or served.answer.status_code < 200 <= response.status_code
        served.answer = response
        self._send_back(response, served.source)
        if method == "INVITE" and response.status_code >= 200 and first:
            self._in(GIVE_UP, lambda: self._served.pop(key, None))
            if response.status_code >= 300 and self._repeats:
                self._in(T1, lambda: self._repeat_failure(served, T1))

    def _repeat_failure(self, served: _Served, waited: float) -> None:
        """Timer G: a failure is sent again until it is acknowledged."""
        if served.acknowledged or served.answer is None or waited >= GIVE_UP:
            return
        self._send_back(served.answer, served.source)
        self._in(min(T2, 2 * waited), lambda: self._repeat_failure(served, min(2 * waited, GIVE_UP)))

    def _send_back(self, response: SipResponse, source: Address) -> None:
        try:
            if self.inner.reliable:
                self.inner.send(response, source)
            else:
                self.inner.send_reply(response)
        except (RuntimeError, ValueError, OSError) as error:
            log.info("sip: no way back", address=source[0], error=str(error))

    def _name_transport_in_contact(self, message: SipRequest | SipResponse) -> None:
        """Later requests of the call are to come over TCP too (RFC 3261 19.1.1)."""
        contact = message.get_header("contact")
        if self.inner.reliable and contact and contact.endswith(">") and ";transport=" not in contact:
            message.set_header("Contact", f"{contact[:-1]};transport=tcp>")

    # ---- requests of ours, and their answers ---------------------------------------------------------

    def send(self, message: SipRequest | SipResponse, addr: Address) -> None:
        """Send a request of ours."""
        if isinstance(message, SipResponse):
            self._send_back(message, addr)
            return
        _name_transport(message, "TCP" if self.inner.reliable else "UDP")
        self._name_transport_in_contact(message)
        if message.method != "ACK":
            key = _key(message, message.method)
            self._asked[key] = asked = _Asked(message, addr)
            self._watch(key, asked, T1 if self._repeats else GIVE_UP)
        self._send_out(message, addr)

    def _send_out(self, request: SipRequest, address: Address) -> None:
        try:
            self.inner.send(request, address)
        except RuntimeError:
            self.spawn(self._connect_and_send(request, address))
        except OSError as error:
            log.info("sip: can't send", method=request.method, address=address[0], error=str(error))

    async def _connect_and_send(self, request: SipRequest, address: Address) -> None:
        if not isinstance(self.inner, TcpSipTransport):
            return
        try:
            async with asyncio.timeout(GIVE_UP / 4):
                await self.inner.connect(address)
            self.inner.send(request, address)
        except (OSError, RuntimeError, TimeoutError) as error:
            log.warning("sip: no connection", address=f"{address[0]}:{address[1]}", error=str(error) or "timeout")
            self._fail(_key(request, request.method), 503, "Service Unavailable")

    def _watch(self, key: Key, asked: _Asked, wait: float) -> None:
        """Timers A, B, E and F: send again, twice as late each time, and give up after 32 s."""

        def due() -> None:
            asked.waited += wait
            if self._asked.get(key) is not asked or asked.failed:
                return
            if asked.waited >= GIVE_UP:
                if not (asked.proceeding and asked.request.method == "INVITE"):
                    self._fail(key, 408, "Request Timeout")
                return
            invite = asked.request.method == "INVITE"
            if self._repeats and not (invite and asked.proceeding):
                self._send_out(asked.request, asked.target)
            self._watch(key, asked, 2 * wait if invite else min(T2, 2 * wait))

        asked.timer = self._in(wait, due)

    def _fail(self, key: Key, status: int, reason: str) -> None:
        """Tell the user agent what a server would have said."""
        if (asked := self._asked.pop(key, None)) is not None:
            self._pass_on_answer(answer_to(asked.request, status, reason), asked.target)

    def _answer_came(self, response: SipResponse, address: Address) -> None:
        method = _method(response)
        key = _key(response, method)
        asked = self._asked.get(key)
        if asked is None:
            if method == "INVITE" and 200 <= response.status_code < 300:
                self._pass_on_answer(response, address)  # our acknowledgement was lost
            return
        if method == "INVITE" and response.status_code >= 300:
            self._acknowledge(asked, response)
            if asked.failed:
                return
            asked.failed = True
            self._in(GIVE_UP, lambda: self._asked.pop(key, None))
        elif response.status_code >= 200:
            del self._asked[key]
        asked.proceeding = True
        if response.status_code >= 200 and asked.timer is not None:
            asked.timer.cancel()
        self._pass_on_answer(response, address)

    def _acknowledge(self, asked: _Asked, response: SipResponse) -> None:
        """The acknowledgement of a failure, of the INVITE's own transaction (RFC 3261 17.1.1.3)."""
        invite = asked.request
        ack = SipRequest(method="ACK", uri=invite.uri)
        ack.headers.append("Via", invite.headers.get("via")[0])
        for name in ("From", "Call-ID"):
            ack.headers.set_single(name, invite.get_header(name) or "")
        ack.headers.set_single("To", response.get_header("to") or "")
        ack.headers.set_single("CSeq", f"{invite.cseq.seq if invite.cseq else 1} ACK")
        ack.headers.set_single("Max-Forwards", "70")
        for route in invite.headers.get("route"):
            ack.headers.append("Route", route)
        self._send_out(ack, asked.target)

    def _pass_on_answer(self, response: SipResponse, address: Address) -> None:
        self.answered(response)
        self._pass_on(response, address)

    def _pass_on(self, message: SipRequest | SipResponse, address: Address) -> None:
        if self.on_message is not None:
            self.on_message(message, address)


def answer_to(request: SipRequest, status: int, reason: str, **headers: str) -> SipResponse:
    """An answer outside of a dialog, with what it copies from its request (RFC 3261 8.2.6.2)."""
    response = SipResponse(status_code=status, reason_phrase=reason)
    for via in request.headers.get("via"):
        response.headers.append("Via", via)
    for name in ("From", "To", "Call-ID", "CSeq"):
        response.headers.set_single(name, request.get_header(name) or "")
    to = response.get_header("to") or ""
    if status > 100 and ";tag=" not in to.lower():
        branch = request.via[0].branch if request.via else ""
        response.headers.set_single("To", f"{to};tag={abs(hash((branch, request.call_id))):x}")
    for name, value in headers.items():
        response.headers.set_single(name.replace("_", "-"), value)
    return response


def _key(message: SipRequest | SipResponse, method: str) -> Key:
    """Transactions are told apart by branch, sender and method (RFC 3261 17.2.3)."""
    via = message.via[0] if message.via else None
    branch = (via.branch if via else None) or f"{message.call_id} {message.get_header('cseq')}"
    return branch, f"{via.host}:{via.port}" if via else "", method


def _method(response: SipResponse) -> str:
    return response.cseq.method.upper() if response.cseq else ""


def _name_transport(request: SipRequest, name: str) -> None:
    """The library names UDP in each Via, whatever carries it."""
    first, *others = request.headers.get("via")
    via = parse_via(first)
    if via.transport != name:
        via.transport = name
        request.headers.remove("Via")
        for value in (stringify_via(via), *others):
            request.headers.append("Via", value)
