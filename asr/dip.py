"""The earliest sign of a pause: the speech's level falls, some 100 ms before a VAD is sure of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DipRule:
    """Quiet is below `share` of the speech's own level, a peak of 20-ms levels that falls by `decay` a chunk.

    A dip is `chunks` quiet ones in a row. On the recordings of `tests/data` through G.711 that is
    100 ms (median) before Silero's stop, at two dips a second of speech.
    """

    share: float = 0.15
    decay: float = 0.995
    chunks: int = 2


class DipDetector:
    """Follows the level of one utterance, chunk after chunk of some 20 ms."""

    def __init__(self, rule: DipRule | None = None) -> None:
        self._rule = rule or DipRule()
        self._level = 0.0
        self._quiet = 0

    @property
    def quiet(self) -> bool:
        """Whether the last chunk was quiet, beside the speech before it."""
        return self._quiet > 0

    def push(self, level: float) -> bool:
        """Take the level of the next chunk (root mean square); True at the moment when a dip is certain."""
        self._level = max(level, self._level * self._rule.decay)
        self._quiet = self._quiet + 1 if level < self._rule.share * self._level else 0
        return self._quiet == self._rule.chunks
