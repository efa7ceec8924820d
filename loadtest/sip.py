"""A caller on SIP: its own few messages over UDP and G.711 by RTP; it shares no code with what it tests.

RFC 3261 for an INVITE, its repetitions and its end; RFC 3550 for the audio. It plays without a jitter buffer: a
packet that comes late is heard late.
"""

import asyncio
import re
import secrets
import socket
import struct

from loadtest.line import Broken, Line, Pcm, Refused
from loadtest.telephone import FRAME, RATE, decode, encode

_T1, _PORT = 0.5, 5060
_MU_LAW = 0


class _Signals(asyncio.DatagramProtocol):
    """Puts what comes into a queue."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[str] = asyncio.Queue(maxsize=100)

    def datagram_received(self, data: bytes, addr: object) -> None:
        if not self.messages.full():
            self.messages.put_nowait(data.decode("utf-8", "replace"))


class _Ear(asyncio.DatagramProtocol):
    """Gives the line what it hears."""

    def __init__(self, line: "Sip") -> None:
        self._line = line

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._line.packet(data)


class Sip(Line):
    """One call to sip:host:port."""

    rate = RATE

    async def open(self) -> None:
        """See `Line`."""
        host, _, port = self.server.removeprefix("sip:").partition(":")
        self._peer = (await self._resolved(host), int(port or _PORT))
        loop = asyncio.get_running_loop()
        self._own = _own_address(self._peer)
        self._signals, signals = await loop.create_datagram_endpoint(_Signals, local_addr=(self._own, 0))
        self._audio, _ = await loop.create_datagram_endpoint(lambda: _Ear(self), local_addr=(self._own, 0))
        self._messages = signals.messages
        self._call, self._tag = secrets.token_hex(8), secrets.token_hex(4)
        self._to = f"<sip:agent@{host}>"
        self._number, self._stamp, self._source = 0, secrets.randbits(31), secrets.randbits(32)
        self._target: tuple[str, int] | None = None
        self._over = False
        self._last: int | None = None
        await self._invite()

    async def _invite(self) -> None:
        ears = self._audio.get_extra_info("sockname")[1]
        body = (
            f"v=0\r\no=- 1 1 IN IP4 {self._own}\r\ns=-\r\nc=IN IP4 {self._own}\r\nt=0 0\r\n"
            f"m=audio {ears} RTP/AVP 0 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:101 telephone-event/8000\r\n"
        )
        invite = self._request("INVITE", 1, body)
        wait = _T1
        while True:
            self._signals.sendto(invite, self._peer)
            try:
                async with asyncio.timeout(wait):
                    status, message = await self._final(1)
                break
            except TimeoutError:
                wait *= 2
        self._to = _header(message, "To")
        self._signals.sendto(self._request("ACK", 1), self._peer)
        if status >= 300:
            raise Refused(message.splitlines()[0], status=status, retry_after=_header(message, "Retry-After"))
        address = re.search(r"^c=IN IP4 (\S+)", message, re.M)
        port = re.search(r"^m=audio (\d+)", message, re.M)
        if not address or not port:
            raise Refused("an answer without audio")
        self._target = (address[1], int(port[1]))

    async def _final(self, number: int) -> tuple[int, str]:
        """The final answer to the request of that number."""
        while True:
            message = await self._messages.get()
            status = re.match(r"SIP/2.0 (\d{3})", message)
            if status and int(status[1]) >= 200 and _header(message, "CSeq").startswith(f"{number} "):
                return int(status[1]), message

    def _request(self, method: str, number: int, body: str = "") -> bytes:
        port = self._signals.get_extra_info("sockname")[1]
        lines = [
            f"{method} sip:agent@{self._peer[0]}:{self._peer[1]} SIP/2.0",
            f"Via: SIP/2.0/UDP {self._own}:{port};rport;branch=z9hG4bK{self._call}{method}{number}",
            f"From: <sip:loadtest@{self._own}>;tag={self._tag}",
            f"To: {self._to}",
            f"Call-ID: {self._call}",
            f"CSeq: {number} {method}",
            f"Contact: <sip:loadtest@{self._own}:{port}>",
            "Max-Forwards: 70",
            *(["Content-Type: application/sdp"] if body else []),
            f"Content-Length: {len(body)}",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()

    async def close(self) -> None:
        """See `Line`."""
        if getattr(self, "_target", None) is not None and not self._over:
            self._signals.sendto(self._request("BYE", 2), self._peer)
        for transport in ("_signals", "_audio"):
            if hasattr(self, transport):
                getattr(self, transport).close()

    async def send(self, pcm: Pcm) -> None:
        """See `Line`."""
        if self._over:
            raise Broken("the service hung up")
        self._number, self._stamp = self._number + 1 & 0xFFFF, self._stamp + FRAME & 0xFFFFFFFF
        head = struct.pack(">BBHII", 0x80, _MU_LAW, self._number, self._stamp, self._source)
        self._audio.sendto(head + encode(pcm), self._target)

    async def listen(self) -> None:
        """See `Line`: a BYE, and an INVITE's answer that is repeated because our ACK was lost."""
        while True:
            message = await self._messages.get()
            if message.startswith("BYE "):
                copied = ("Via", "From", "To", "Call-ID", "CSeq")
                lines = ["SIP/2.0 200 OK", *(f"{name}: {_header(message, name)}" for name in copied)]
                self._signals.sendto(("\r\n".join(lines) + "\r\nContent-Length: 0\r\n\r\n").encode(), self._peer)
                self._over = True
            elif message.startswith("SIP/2.0 2") and "INVITE" in _header(message, "CSeq"):
                self._signals.sendto(self._request("ACK", 1), self._peer)

    def packet(self, data: bytes) -> None:
        """A packet of the agent's: one that was overtaken is not played."""
        if len(data) <= 12 or data[1] & 0x7F != _MU_LAW or not hasattr(self, "_loop"):
            return
        number = int.from_bytes(data[2:4], "big")
        if self._last is not None and (number - self._last & 0xFFFF) > 0x8000:
            return
        self._last = number
        self.hear(decode(data[12 + 4 * (data[0] & 0x0F) :]))

    async def _resolved(self, host: str) -> str:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, family=socket.AF_INET)
        except OSError as error:
            raise Refused(f"{host}: {error.strerror or error}") from error
        return str(found[0][4][0])


def _header(message: str, name: str) -> str:
    found = re.search(rf"^{name}:\s*(.*?)\r?$", message, re.M | re.I)
    return found[1] if found else ""


def _own_address(peer: tuple[str, int]) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(peer)
        return str(probe.getsockname()[0])
