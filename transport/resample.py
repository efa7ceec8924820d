"""One stateful resampler a stream: block by block with the same result as in one piece (FFmpeg's libswresample)."""

from fractions import Fraction

import av
import numpy as np
from av.filter import Graph

from transport.frame import Pcm


class Resampler:
    """Converts a mono stream from one rate to another; equal rates pass through untouched.

    A block in is a block out, 2 ms later: soxr, whose filters are better than a voice needs, keeps
    telephone audio until it has 110 ms of it, and then the whole service hears the caller late.
    """

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = source, target
        self._taken = self._given = 0
        self._stream = _graph(source, target) if source != target else None

    def push(self, pcm: Pcm, *, last: bool = False) -> Pcm:
        """Feed samples at the source rate; returns those ready at the target rate.

        `last` drains the filter: call once at the end of a stream, or its final few
        milliseconds stay inside.
        """
        if self._stream is None:
            return pcm
        self._taken += len(pcm)
        out: list[Pcm] = []
        if len(pcm):
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(pcm, np.float32)[None], format="flt", layout="mono")
            frame.sample_rate = self.source
            out += _filtered(self._stream, frame)
        if last and self._taken:
            out += _filtered(self._stream, None)
        ready = np.concatenate(out) if out else np.zeros(0, np.float32)
        self._given += len(ready)
        if last:  # the drained filter is a sample or two off, and gives nothing of less than a millisecond
            missing = round(self._taken * self.target / self.source) - self._given
            ready = np.pad(ready, (0, missing)) if missing > 0 else ready[: len(ready) + missing]
        return ready


def _graph(source: int, target: int) -> Graph:
    """libswresample as a filter graph on the caller's thread; PyAV's AudioResampler starts a thread a core instead."""
    graph = Graph()
    graph.threads = 1
    entry = graph.add_abuffer(format="flt", sample_rate=source, layout="mono", time_base=Fraction(1, source))
    stages = [entry, graph.add("aresample", str(target)), graph.add("abuffersink")]
    graph.link_nodes(*stages).configure()
    return graph


def _filtered(graph: Graph, entry: av.AudioFrame | None) -> list[Pcm]:
    """What comes out for a frame that goes in; None drains the filter."""
    graph.push(entry)
    out: list[Pcm] = []
    while True:
        try:
            frame = graph.pull()
        except (BlockingIOError, EOFError):
            return out
        if isinstance(frame, av.AudioFrame):
            out.append(frame.to_ndarray()[0])
