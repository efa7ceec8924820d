"""How a transfer that we asked for went: REFER and the NOTIFYs that tell of it (RFC 3515)."""

import asyncio

from budget.errors import PeerError

PATIENCE = 20.0
"""Seconds that the other side gets to say how it went."""


class Referral:
    """The transfers of one call; one at a time."""

    def __init__(self) -> None:
        self._result: asyncio.Future[int] | None = None
        self._accepted = False

    def went(self, status: int) -> None:
        """The other side says so (a SIP status); the first final one counts. 202: it will tell."""
        if status == 202:
            self._accepted = True
        elif self._result is not None and not self._result.done() and status >= 200:
            self._result.set_result(status)

    def hung_up(self) -> None:
        """The call is over. An exchange that took the transfer may hang up instead of telling of it."""
        self.went(200 if self._accepted else 487)

    async def over(self) -> None:
        """Wait, after REFER was sent, until the transfer is done. Raises `PeerError` if it failed."""
        self._accepted = False
        self._result = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(PATIENCE):
                status = await self._result
        except TimeoutError:
            raise PeerError("transfer_failed", "the other side did not say how the transfer went") from None
        finally:
            self._result = None
        if status >= 300:
            raise PeerError("transfer_failed", f"the other side answered {status}")
