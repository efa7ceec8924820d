"""What becomes of a SIP request before the library's user agent sees it: who may call, passwords, what we can't do.

Sans I/O. Also the library's gaps in dialogs: a request that names a dialog which doesn't exist is told so (RFC 3261
12.2.2), one INVITE that came over two ways is taken once (8.2.2.2), options that we lack are named (8.2.2.3).
"""

from collections.abc import Callable

import structlog
from aiosipua import SipRequest, SipResponse

from transport.addresses import may_connect
from transport.sip.digest import Checked, Digest
from transport.sip.options import SipOptions
from transport.sip.transactions import Address, answer_to

log = structlog.get_logger(__name__)

ALLOWED = "INVITE, ACK, BYE, CANCEL, OPTIONS, UPDATE, INFO, NOTIFY, PRACK"
_METHODS = frozenset(ALLOWED.split(", "))
_EXTENSIONS = frozenset({"timer", "replaces", "100rel", "norefersub"})
MOST_BYTES = 1 << 14
"""Of a request's body: more than any offer needs."""


class Screening:
    """Judges requests. `knows` says whether a dialog exists, by Call-ID and our tag (empty: any)."""

    def __init__(self, options: SipOptions, knows: Callable[[str, str], bool], now: Callable[[], float]) -> None:
        self._options, self._knows, self._now = options, knows, now
        self._digest = Digest(options.realm, options.users, options.algorithms) if options.users else None

    def refusal(self, request: SipRequest, address: Address) -> SipResponse | None:
        """The answer to a request that goes no further; None for one that does."""
        tag = (request.to_addr.tag if request.to_addr else None) or ""
        within = bool(tag) and self._knows(request.call_id or "", tag)
        if not within and not self._may_call(address[0]) and self._digest is None:
            log.warning("sip: not allowed", address=address[0], method=request.method, hint="sip.allow")
            return answer_to(request, 403, "Forbidden")
        if request.method not in _METHODS:
            return answer_to(request, 405, "Method Not Allowed", Allow=ALLOWED)
        if request.cseq is None or request.cseq.method.upper() != request.method or request.cseq.seq < 1:
            return answer_to(request, 400, "Bad Request")
        if len(request.body) > MOST_BYTES:
            return answer_to(request, 413, "Request Entity Too Large")
        if request.method != "INVITE":
            return None
        if tag:
            return None if within else answer_to(request, 481, "Call/Transaction Does Not Exist")
        return self._of_new_call(request, address)

    def _of_new_call(self, invite: SipRequest, address: Address) -> SipResponse | None:
        if not self._may_call(address[0]) and (challenge := self._challenge(invite, address)) is not None:
            return challenge
        required = {name.strip().lower() for value in invite.headers.get("require") for name in value.split(",")}
        if lacking := sorted(required - _EXTENSIONS):
            return answer_to(invite, 420, "Bad Extension", Unsupported=", ".join(lacking))
        if self._knows(invite.call_id or "", ""):
            return answer_to(invite, 482, "Loop Detected")
        kind = (invite.content_type or "application/sdp").split(";")[0].strip().lower()
        if invite.body and kind != "application/sdp":
            return answer_to(invite, 415, "Unsupported Media Type", Accept="application/sdp")
        return None

    def _may_call(self, host: str) -> bool:
        """By address alone. Where passwords are set, this machine's own programs need one too, unless named."""
        return may_connect(host, self._options.allow, loopback=self._digest is None)

    def _challenge(self, invite: SipRequest, address: Address) -> SipResponse | None:
        if self._digest is None:
            return answer_to(invite, 403, "Forbidden")
        checked = self._digest.check(invite, self._now())
        if checked is Checked.GOOD:
            return None
        if checked is Checked.WRONG:
            log.warning("sip: wrong password or user", address=address[0])
            return answer_to(invite, 403, "Forbidden")
        response = answer_to(invite, 401, "Unauthorized")
        for value in self._digest.challenges(self._now(), stale=checked is Checked.STALE):
            response.headers.append("WWW-Authenticate", value)
        return response


def key_of_info(request: SipRequest) -> str | None:
    """The key that an INFO carries, as most exchanges send it (application/dtmf-relay, application/dtmf)."""
    kind = (request.content_type or "").split(";")[0].strip().lower()
    if kind == "application/dtmf":
        return request.text.strip()[:1] or None
    if kind != "application/dtmf-relay":
        return None
    for line in request.text.splitlines():
        name, _, value = line.partition("=")
        if name.strip().lower() == "signal":
            return value.strip()[:1] or None
    return None
