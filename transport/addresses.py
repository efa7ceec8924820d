"""Network addresses: who may connect, and how this machine is reached."""

import ipaddress
import socket
from collections.abc import Sequence


def may_connect(address: str, allowed: Sequence[str], *, loopback: bool = True) -> bool:
    """Whether an address is in one of the networks, or (`loopback`) this machine's own."""
    try:
        who = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(who, ipaddress.IPv6Address) and who.ipv4_mapped:
        who = who.ipv4_mapped
    return (loopback and who.is_loopback) or any(who in ipaddress.ip_network(name, strict=False) for name in allowed)


def own_address(towards: str) -> str:
    """The address of the interface from which this machine reaches another."""
    family = socket.AF_INET6 if ":" in towards else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((towards, 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
