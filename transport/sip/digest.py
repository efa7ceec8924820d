"""Digest authentication of callers (RFC 7616, RFC 8760): challenges, and answers checked.

A nonce is its time and a signature of it, so nothing is kept of challenges that nobody answers. The library
computes what a good client answers; it is compared in constant time.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from aiosipua import SipDigestAuth, SipRequest
from aiosipua.auth import build_credentials
from aiosipua.headers import AuthChallenge, AuthCredentials, parse_auth

NONCE_LIFE = 60.0
"""Seconds that a nonce may be answered in."""
_MOST_COUNTS = 10_000


class Checked(Enum):
    """What became of a caller's credentials."""

    GOOD = "good"
    MISSING = "missing"
    STALE = "stale"
    """The nonce is too old, or was used before: the client may try again without asking its user."""
    WRONG = "wrong"


@dataclass(frozen=True)
class _Answer:
    user: str
    nonce: str
    count: int
    params: Mapping[str, str]


class Digest:
    """Checks callers against the operator's users (name to password).

    `algorithms` ("MD5", "SHA-256") in the order in which they are offered: old phones fail at one they don't know.
    """

    def __init__(self, realm: str, users: Mapping[str, str], algorithms: tuple[str, ...]) -> None:
        self.realm, self._users, self._algorithms = realm, users, algorithms
        self._secret = secrets.token_bytes(32)
        self._counts: OrderedDict[str, int] = OrderedDict()
        """The last count of each nonce that was answered: a request can't be played back."""

    def challenges(self, now: float, *, stale: bool = False) -> list[str]:
        """Values of WWW-Authenticate, one for each algorithm. `now` in seconds of a clock that doesn't go back."""
        tail = ', qop="auth"' + (", stale=true" if stale else "")
        return [
            f'Digest realm="{self.realm}", nonce="{self._nonce(now)}", algorithm={name}{tail}'
            for name in self._algorithms
        ]

    def check(self, request: SipRequest, now: float) -> Checked:
        """Whether the request carries a user's credentials."""
        header = request.get_header("authorization")
        if header is None:
            return Checked.MISSING
        answer = _read(header)
        password = self._users.get(answer.user) if answer else None
        algorithm = answer.params.get("algorithm", "MD5").upper() if answer else ""
        if answer is None or answer.params.get("realm") != self.realm or algorithm not in self._algorithms:
            return Checked.WRONG
        challenge = AuthChallenge(
            "Digest",
            {
                "realm": self.realm,
                "nonce": answer.nonce,
                "algorithm": algorithm,
                "qop": "auth",
            },
        )
        # An unknown user costs the same work: how long the answer takes must not tell which names exist.
        who = SipDigestAuth(answer.user, password if password is not None else secrets.token_hex(8))
        wanted = build_credentials(
            who,
            challenge,
            request.method,
            answer.params.get("uri", ""),  # which some phones shorten, and proxies change in the request
            nonce_count=answer.count,
            cnonce=answer.params.get("cnonce", ""),
        )
        given = answer.params.get("response", "")
        good = wanted is not None and hmac.compare_digest(wanted.params["response"].encode(), given.lower().encode())
        if not good or password is None:
            return Checked.WRONG
        return Checked.GOOD if self._is_fresh(answer, now) else Checked.STALE

    def _is_fresh(self, answer: _Answer, now: float) -> bool:
        stamp, _, _ = answer.nonce.partition(".")
        try:
            began = int(stamp, 16) / 1000
        except ValueError:
            return False
        if not hmac.compare_digest(self._nonce(began).encode(), answer.nonce.encode()):
            return False
        if not -1 <= now - began <= NONCE_LIFE or answer.count <= self._counts.get(answer.nonce, 0):
            return False
        self._counts[answer.nonce] = answer.count
        while len(self._counts) > _MOST_COUNTS:
            self._counts.popitem(last=False)
        return True

    def _nonce(self, now: float) -> str:
        stamp = f"{round(now * 1000):x}"
        return f"{stamp}.{hmac.new(self._secret, stamp.encode(), hashlib.sha256).hexdigest()[:32]}"


def _read(header: str) -> _Answer | None:
    try:
        credentials: AuthCredentials = parse_auth(header, credentials=True)
        params = credentials.params
        count = int(params.get("nc", ""), 16)
    except (ValueError, LookupError, TypeError):
        return None
    if credentials.scheme.lower() != "digest" or params.get("qop") != "auth":
        return None
    return _Answer(params.get("username", ""), params.get("nonce", ""), count, params)
