"""What both sides agree on for one call's audio, by offers and answers (RFC 3264), from its first to its last.

Whichever side asks, and as often as they do: the call's stream follows what was agreed last.
"""

from collections.abc import Callable

from aiosipua.sdp import SdpMessage

from transport.rtp.stream import Media, RtpStream
from transport.sip import offer
from transport.sip.offer import Local


class Negotiation:
    """One call's offers and answers. `agreed` is called after each agreement, with whether it was the first."""

    def __init__(self, stream: RtpStream, local: Local, agreed: Callable[[bool], None]) -> None:
        self.local = local
        """Our side, as it was told last."""
        self.done = False
        """Both sides agreed at least once."""
        self.pending = False
        """An offer of ours waits for its answer."""
        self._stream, self._agreed = stream, agreed

    def answer(self, sdp: SdpMessage) -> SdpMessage:
        """The answer to an offer, which holds from now on. Raises `PeerError`."""
        if self.done:
            self.local = self.local.changed()
        reply, media = offer.answer(sdp, self.local)
        self._agree(media)
        return reply

    def offer(self) -> SdpMessage:
        """Our offer, where the other side asks for one: everything at first, what is in use later."""
        self.pending = True
        if not self.done:
            return offer.offer(self.local)
        self.local = self.local.changed()
        return offer.offer(self.local, current=self._stream.media)

    def accepted(self, sdp: SdpMessage) -> None:
        """The other side's answer to our offer. Raises `PeerError`."""
        self._agree(offer.accepted(sdp, self.local))

    def _agree(self, media: Media) -> None:
        first, self.done, self.pending = not self.done, True, False
        if media != self._stream.media:
            self._stream.agree(media)
        self._agreed(first)
