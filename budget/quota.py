"""What one client may ask for: so many calls at once, and so many begun a minute (a token bucket a key)."""

from collections import OrderedDict
from dataclasses import dataclass

_KEYS = 10_000
"""Clients that are remembered; the one unseen for longest goes first, and begins anew if it comes back."""
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Quota:
    """The same for every client; 0 is no bound. `burst` calls may begin at once, then `a_minute`."""

    calls: int = 0
    a_minute: float = 0.0
    burst: int = 10


@dataclass
class _Client:
    calls: int = 0
    tokens: float = 0.0
    filled: float = 0.0


class Quotas:
    """Counts each client's calls. Times are seconds on any clock; one that goes back gives nothing."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._clients: OrderedDict[str, _Client] = OrderedDict()

    def full(self, key: str) -> bool:
        """Whether the client has all the calls that it may have at once."""
        client = self._clients.get(key)
        return bool(self._quota.calls and client is not None and client.calls >= self._quota.calls)

    def wait(self, key: str, now: float) -> float:
        """Seconds until the client may begin a call; 0 if it may now."""
        if not self._quota.a_minute:
            return 0.0
        tokens = self._refilled(self._client(key, now), now).tokens
        return 0.0 if tokens >= 1 - _ROUNDING else (1 - tokens) * 60 / self._quota.a_minute

    def began(self, key: str, now: float) -> None:
        """The client begins a call."""
        client = self._refilled(self._client(key, now), now)
        client.calls += 1
        client.tokens = max(0.0, client.tokens - 1)

    def ended(self, key: str) -> None:
        """A call of the client is over."""
        client = self._clients.get(key)
        if client is not None:
            client.calls = max(0, client.calls - 1)

    def _client(self, key: str, now: float) -> _Client:
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = _Client(tokens=float(self._quota.burst), filled=now)
            self._forget_idle()
        self._clients.move_to_end(key)
        return client

    def _refilled(self, client: _Client, now: float) -> _Client:
        gained = max(0.0, now - client.filled) * self._quota.a_minute / 60
        client.tokens = min(float(self._quota.burst), client.tokens + gained)
        client.filled = now
        return client

    def _forget_idle(self) -> None:
        while len(self._clients) > _KEYS:
            idle = next((key for key, client in self._clients.items() if client.calls == 0), None)
            if idle is None:
                return
            del self._clients[idle]
