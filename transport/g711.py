"""G.711 mu-law and A-law by table (ITU-T G.711), between bytes and float32 samples at 8 kHz.

Tables are built once from the standard's segment formulas; encoding looks up all 65,536
16-bit values, so a 20 ms frame costs one index operation.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from transport.frame import Pcm

RATE = 8_000
"""Hz."""


def _mu_law_levels() -> NDArray[np.int32]:
    """The 256 decoded values (14-bit law scaled to 16 bits)."""
    code = ~np.arange(256, dtype=np.uint8)
    mantissa = (code & 0x0F).astype(np.int32)
    exponent = ((code >> 4) & 7).astype(np.int32)
    magnitude = (((mantissa << 3) + 0x84) << exponent) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int32)


def _a_law_levels() -> NDArray[np.int32]:
    """The 256 decoded values (13-bit law scaled to 16 bits)."""
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    mantissa = (code & 0x0F).astype(np.int32)
    exponent = ((code >> 4) & 7).astype(np.int32)
    low = (mantissa << 4) + 8
    magnitude = np.where(exponent == 0, low, (low + 0x100) << np.maximum(exponent - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int32)


@cache
def _tables(law: str) -> tuple[Pcm, NDArray[np.uint8]]:
    """(decode: 256 floats, encode: 65,536 codes indexed by int16 + 32768), nearest level wins."""
    levels = _mu_law_levels() if law == "mu" else _a_law_levels()
    order = np.argsort(levels, kind="stable")
    ranked = levels[order]
    middles = (ranked[:-1] + ranked[1:]) / 2
    values = np.arange(-32768, 32768)
    encode = order[np.searchsorted(middles, values)].astype(np.uint8)
    return (levels / 32768.0).astype(np.float32), encode


def decode(data: bytes, law: str = "mu") -> Pcm:
    """Bytes (one a sample) to float32 in [-1, 1]; `law` is "mu" or "a"."""
    return _tables(law)[0][np.frombuffer(data, np.uint8)]


def encode(pcm: Pcm, law: str = "mu") -> bytes:
    """float32 in [-1, 1] to bytes, one a sample."""
    index = (np.clip(pcm, -1.0, 1.0) * 32767.0).astype(np.int32) + 32768
    return _tables(law)[1][index].tobytes()
