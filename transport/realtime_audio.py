"""The audio formats of the OpenAI Realtime protocol: 24 kHz 16-bit PCM and G.711 at 8 kHz."""

from transport import g711
from transport.frame import Pcm, from_pcm16, to_pcm16

FORMATS = {"audio/pcm": 24_000, "audio/pcmu": 8_000, "audio/pcma": 8_000}
"""Name on the wire to sample rate in Hz."""


def decode_audio(data: bytes, name: str) -> Pcm:
    """Bytes of that format to float32."""
    if name == "audio/pcm":
        return from_pcm16(data)
    return g711.decode(data, "mu" if name == "audio/pcmu" else "a")


def encode_audio(pcm: Pcm, name: str) -> bytes:
    """float32 to bytes of that format."""
    if name == "audio/pcm":
        return to_pcm16(pcm)
    return g711.encode(pcm, "mu" if name == "audio/pcmu" else "a")
