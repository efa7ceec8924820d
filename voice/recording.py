"""Calls recorded as sound: the caller on the left, the agent as the caller heard it on the right, Opus in Ogg.

The caller's audio is the clock. The agent's is put beside it where it was sent, and taken out again where a
barge-in dropped it before it was played. Encoding is done a second at a time, by a thread of its own; what was
written before a process is killed can be played.
"""

from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np
import structlog

from transport.frame import RATE, AudioFrame, Pcm
from transport.leg import CallLeg, Notice
from transport.requests import FromClient
from transport.resample import Resampler

log = structlog.get_logger(__name__)

_BITS = 32_000
"""A second, both sides: 14 MB an hour."""


class StereoTrack:
    """Two sides of a call at 16 kHz, side by side. No clock, no I/O."""

    def __init__(self) -> None:
        self._caller: Pcm = np.zeros(0, np.float32)
        self._agent: Pcm = np.zeros(0, np.float32)

    def heard(self, pcm: Pcm) -> None:
        """The caller's next samples."""
        self._caller = np.concatenate([self._caller, pcm])

    def said(self, pcm: Pcm) -> None:
        """The agent's next samples, played after those before them, now at the earliest."""
        pause = max(0, len(self._caller) - len(self._agent))
        self._agent = np.concatenate([self._agent, np.zeros(pause, np.float32), pcm])

    def dropped(self) -> None:
        """What was sent ahead is not played."""
        self._agent = self._agent[: len(self._caller)]

    def take(self, least: int = 1) -> Pcm | None:
        """float32 (2, n) of what both sides have reached and nobody took; None if it is less than `least` samples."""
        count = len(self._caller)
        if count < least:
            return None
        agent = self._agent[:count]
        both = np.stack([self._caller, np.pad(agent, (0, count - len(agent)))])
        self._caller, self._agent = self._caller[:0], self._agent[count:]
        return both


class _File:
    """One Ogg file, written by the recorder's thread."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        self._container = av.open(str(path), "w", format="ogg")
        self._stream = self._container.add_stream("libopus", rate=RATE, layout="stereo")
        self._stream.bit_rate = _BITS

    def write(self, both: Pcm) -> None:
        interleaved = np.ascontiguousarray((np.clip(both, -1, 1) * 32767).astype(np.int16).T).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(interleaved, format="s16", layout="stereo")
        frame.sample_rate = RATE
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        self._container.mux(self._stream.encode(None))
        self._container.close()


class RecordedLeg:
    """A leg whose call is recorded. See `CallLeg`; everything is passed on."""

    def __init__(self, leg: CallLeg, path: Path, thread: ThreadPoolExecutor) -> None:
        self._leg, self._path, self._thread = leg, path, thread
        self._track = StereoTrack()
        self._resampler = Resampler(leg.rate, RATE)
        self._file: _File | None = None
        self._broken = False

    @property
    def rate(self) -> int:
        """See `CallLeg`."""
        return self._leg.rate

    @property
    def kind(self) -> str:
        """See `CallLeg`."""
        return self._leg.kind

    @property
    def greets(self) -> bool:
        """See `CallLeg`."""
        return self._leg.greets

    @property
    def about(self) -> Mapping[str, str]:
        """See `CallLeg`."""
        return self._leg.about

    async def frames(self) -> AsyncIterator[FromClient]:
        """See `CallLeg`."""
        async for entry in self._leg.frames():
            if isinstance(entry, AudioFrame):
                self._track.heard(entry.pcm)
                self._put(RATE)
            yield entry

    async def play(self, pcm: Pcm) -> None:
        """See `CallLeg`."""
        if self._resampler.source != self._leg.rate:
            self._resampler = Resampler(self._leg.rate, RATE)
        self._track.said(self._resampler.push(pcm))
        await self._leg.play(pcm)

    async def flush(self) -> float:
        """See `CallLeg`."""
        self._track.dropped()
        return await self._leg.flush()

    async def notify(self, notice: Notice) -> None:
        """See `CallLeg`."""
        await self._leg.notify(notice)

    async def press(self, keys: str) -> None:
        """See `CallLeg`."""
        await self._leg.press(keys)

    async def transfer(self, target: str) -> None:
        """See `CallLeg`."""
        await self._leg.transfer(target)

    async def hangup(self, reason: str) -> None:
        """See `CallLeg`. Completes the recording."""
        self._put(1)
        self._thread.submit(self._close)
        await self._leg.hangup(reason)

    def _put(self, least: int) -> None:
        if (both := self._track.take(least)) is not None:
            self._thread.submit(self._write, both)

    def _write(self, both: Pcm) -> None:
        if self._broken:
            return
        try:
            self._file = self._file or _File(self._path)
            self._file.write(both)
        except (OSError, av.FFmpegError) as error:
            self._broken = True
            log.error("recording broke off", file=self._path.name, error=str(error))

    def _close(self) -> None:
        file, self._file, self._broken = self._file, None, True
        if file is not None:
            try:
                file.close()
            except (OSError, av.FFmpegError) as error:
                log.error("recording broke off", file=self._path.name, error=str(error))


class Recorder:
    """Records calls into a folder, each as `ID.ogg`. One for the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, "recordings")

    def tap(self, leg: CallLeg, call_id: str) -> CallLeg:
        """A leg like this one, whose call is recorded."""
        return RecordedLeg(leg, self.file(call_id), self._thread)

    def file(self, call_id: str) -> Path:
        """Where a call's recording is, if there is one."""
        return self._folder / f"{call_id}.ogg"

    def close(self) -> None:
        """Write what waits."""
        self._thread.shutdown()
