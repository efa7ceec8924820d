"""How the SIP endpoint is set up."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from transport.rtp.formats import FORMATS


@dataclass(frozen=True)
class Account:
    """Where the service registers, so that a PBX or trunk sends it calls, and whose name it calls with."""

    registrar: str
    """host or host:port"""
    user: str
    password: str
    realm_host: str = ""
    """The domain of the address of record, where it is not the registrar's host."""
    transport: str = "udp"
    expires: int = 300

    @property
    def uri(self) -> str:
        """The address of record."""
        return f"sip:{self.user}@{self.realm_host or split_address(self.registrar)[0]}"


@dataclass(frozen=True)
class SipOptions:
    """Addresses, who may call, and what is spoken."""

    host: str = "127.0.0.1"
    port: int = 5060
    transports: tuple[str, ...] = ("udp", "tcp")
    advertise: str = ""
    """The address that others are told, where it is not the one of the interface towards them (NAT)."""
    allow: tuple[str, ...] = ()
    """Addresses and networks that may call without a password, beside this machine."""
    users: Mapping[str, str] = field(default_factory=dict)
    realm: str = "halfsecond"
    algorithms: tuple[str, ...] = ("MD5",)
    formats: tuple[str, ...] = tuple(FORMATS)
    ptime: int = 20
    rtp_ports: tuple[int, int] = (10_000, 12_000)
    session_expires: int = 1_800
    account: Account | None = None


def split_address(text: str, port: int = 5060) -> tuple[str, int]:
    """host and port of "host", "host:port" or "[v6]:port". Raises `ValueError`."""
    host, colon, number = text.rpartition(":")
    if not colon or "]" in number or (host.count(":") and not host.startswith("[")):
        return text.strip("[]"), port
    return host.strip("[]"), int(number)
