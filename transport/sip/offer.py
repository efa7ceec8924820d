"""Offers and answers about a call's audio (RFC 3264), in SDP (RFC 8866).

The library reads, writes and answers SDP. What it lacks is done here: the telephone events' payload type is answered as
it was offered, secure profiles without keys are refused, the format is found by its name and not by a number alone,
hold in both of its ways (a direction, and the old address 0.0.0.0), comfort noise, packet times, and the
version of a session that changed (RFC 3264 section 8).
"""

import ipaddress
from dataclasses import dataclass, replace

from aiosipua.sdp import MediaDescription, SdpMessage, SdpNegotiationError, negotiate_sdp
from aiosipua.sdp_negotiate import build_sdp

from budget.errors import PeerError
from transport.rtp.formats import FORMATS, Format
from transport.rtp.stream import Media

_EVENTS, _NOISE = "telephone-event", "cn"
_OUR_EVENTS = 101
_PROFILES = ("RTP/AVP", "RTP/AVPF")
_HOLD_ADDRESS = "0.0.0.0"
"""What old phones put for hold (RFC 2543)."""


@dataclass(frozen=True)
class Local:
    """Our side of a call's description."""

    host: str
    """The address that the other side is told."""
    port: int
    formats: tuple[str, ...]
    """Names of the formats that may be used, the best first."""
    ptime: int
    session: str
    version: int = 1

    def changed(self) -> "Local":
        """The next version of the session."""
        return replace(self, version=self.version + 1)


def answer(offer: SdpMessage, local: Local) -> tuple[SdpMessage, Media]:
    """Our answer to an offer, and what is agreed with it. Raises `PeerError` for one that has no audio we speak."""
    audio, address = _audio(offer)
    chosen = _chosen(audio, local.formats)
    if chosen is None:
        offered = ", ".join(codec.encoding_name or str(codec.payload_type) for codec in audio.codecs)
        raise PeerError("not_acceptable", f"no common format: {offered or 'none'} against {', '.join(local.formats)}")
    form, payload_type = chosen
    events = _type_of(audio, _EVENTS, form.clock)
    try:
        reply, _ = negotiate_sdp(offer, local.host, local.port, [payload_type], events or 0, local.ptime, local.session)
    except (SdpNegotiationError, ValueError) as error:
        raise PeerError("not_acceptable", str(error)) from error
    media = _agreed(audio, address, form, payload_type, local)
    ours = reply.audio
    assert ours is not None
    if media.events is not None:  # the library knows events at 8 kHz only
        kept = [line for line in ours.attributes.get("rtpmap", []) if _EVENTS not in line]
        ours.attributes["rtpmap"] = [*kept, f"{media.events} {_EVENTS}/{form.clock}"]
    if media.noise is not None:
        ours.formats.append(str(media.noise))
    if form.channels > 1:
        ours.attributes["rtpmap"][0] = f"{payload_type} {form.name}/{form.clock}/{form.channels}"
    ours.attributes["ptime"] = [str(media.ptime)]
    return _versioned(reply, local), media


def offer(local: Local, *, hold: bool = False, current: Media | None = None) -> SdpMessage:
    """What we would speak: everything at the start of a call, later what is in use. `hold`: we won't listen."""
    names = [current.form.name] if current is not None else list(local.formats)
    forms = [FORMATS[name] for name in names]
    types = {form.name: form.payload_type for form in forms}
    if current is not None:
        types[current.form.name] = current.payload_type
    first = forms[0]
    message = build_sdp(local.host, local.port, types[first.name], first.name, first.clock, 0, local.ptime)
    audio = message.media[0]
    events = current.events if current is not None else _OUR_EVENTS
    audio.formats = [str(types[form.name]) for form in forms]
    audio.attributes = {"rtpmap": [_map(form, types[form.name]) for form in forms]}
    if events is not None:
        audio.formats.append(str(events))
        audio.attributes["rtpmap"].append(f"{events} {_EVENTS}/8000")
        audio.attributes["fmtp"] = [f"{events} 0-15"]
    audio.attributes["ptime"] = [str(local.ptime)]
    audio.attributes["sendonly" if hold else "sendrecv"] = []
    return _versioned(message, local)


def accepted(reply: SdpMessage, local: Local) -> Media:
    """What is agreed by the other side's answer to our offer. Raises `PeerError` if that is nothing."""
    audio, address = _audio(reply)
    chosen = _chosen(audio, local.formats)
    if chosen is None:
        raise PeerError("not_acceptable", "the answer has none of the formats that were offered")
    return _agreed(audio, address, *chosen, local)


def _audio(message: SdpMessage) -> tuple[MediaDescription, tuple[str, int]]:
    audio, address = message.audio, message.rtp_address
    if audio is None or address is None or audio.port == 0:
        raise PeerError("not_acceptable", "no audio is offered")
    if audio.proto not in _PROFILES:
        raise PeerError("not_acceptable", f"{audio.proto} is not spoken here, only RTP/AVP")
    if not 0 < audio.port < 1 << 16 or not _is_reachable(address[0]):
        raise PeerError("not_acceptable", f"no audio can be sent to {address[0]}:{audio.port}")
    return audio, address


def _is_reachable(host: str) -> bool:
    """Whether audio may be sent there: one machine's IPv4 address. Names would be looked up for each packet."""
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return not address.is_multicast and host != "255.255.255.255"


def _chosen(audio: MediaDescription, formats: tuple[str, ...]) -> tuple[Format, int] | None:
    """The offerer's first format that we speak, with its payload type."""
    known = {name.lower(): FORMATS[name] for name in formats}
    for codec in audio.codecs:
        form = known.get(codec.encoding_name.lower())
        if form is not None and codec.clock_rate == form.clock:
            return form, codec.payload_type
    return None


def _agreed(audio: MediaDescription, address: tuple[str, int], form: Format, payload_type: int, local: Local) -> Media:
    held = address[0] == _HOLD_ADDRESS
    return Media(
        form,
        payload_type,
        address,
        form.ptime(_ptime(audio, local.ptime)),
        events=_type_of(audio, _EVENTS, form.clock),
        noise=_type_of(audio, _NOISE, 8_000) if form.clock == 8_000 else None,
        sends=audio.direction in ("sendrecv", "recvonly") and not held,
        hears=audio.direction == "sendrecv" and not held,
    )


def _ptime(audio: MediaDescription, ours: int) -> int:
    """Milliseconds of audio in a packet: what the other side wants, and no more than it takes."""

    def said(name: str, otherwise: int) -> int:
        values = audio.attributes.get(name) or [""]
        return int(values[0]) if values[0].isdecimal() and 0 < int(values[0]) < 1000 else otherwise

    return min(said("ptime", ours), said("maxptime", 60))


def _type_of(audio: MediaDescription, name: str, clock: int) -> int | None:
    found = [c for c in audio.codecs if c.encoding_name.lower() == name]
    exact = [c for c in found if c.clock_rate == clock]
    chosen = exact or (found if name == _EVENTS else [])
    if chosen:
        return chosen[0].payload_type
    return 13 if name == _NOISE and "13" in audio.formats else None


def _map(form: Format, payload_type: int) -> str:
    return f"{payload_type} {form.name}/{form.clock}" + (f"/{form.channels}" if form.channels > 1 else "")


def _versioned(message: SdpMessage, local: Local) -> SdpMessage:
    message.origin.session_id = local.session
    message.origin.session_version = str(local.version)
    message.session_name = "-"
    return message
