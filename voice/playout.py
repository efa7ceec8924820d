"""Sends a reply's audio at real-time pace and knows what the caller has heard of it.

The buffer holds whole clauses; a gate keeps it shut until the caller is certain to be done. The
pump sends 20 ms every 20 ms, `LEAD` ahead at most, so that a barge-in has little to take back. It
can be held and go on later, from the last quiet moment before it stopped.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import numpy as np

from transport.frame import Pcm
from transport.leg import CallLeg
from transport.resample import Resampler
from voice.dialogue import SpokenClause, heard_text

FRAME_SECONDS = 0.02
LEAD = 0.08
"""Seconds of audio that the client may hold ahead of its own playout: covers its jitter."""
BUFFER_SECONDS = 5.0
"""Audio that may wait; the next clause is not begun beyond it."""
KEPT_SECONDS = 1.0
"""Audio that is kept after it was sent, so that it can be sent again."""
BACK_SECONDS = 0.4
"""How far back a quiet moment may lie from which a held reply goes on."""
_QUIET = 0.01
PATIENCE = 1.5
"""Seconds without audio, before the end of a reply, after which the caller is told that more comes."""
AT_DEADLINE = 0.4
"""The same on a machine that is late: the first answer is due so long after a turn that surely ended."""


class PlayoutBuffer:
    """One reply's audio, clause by clause, and how much of it has been sent. No clock, no I/O."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._frame = rate // 50
        self._waiting: deque[Pcm] = deque()
        self._samples = 0
        self._starts: list[tuple[str, int]] = []
        """(clause text, sample of this reply at which it starts)"""
        self._queued = 0
        self._complete = False
        self._kept: deque[Pcm] = deque(maxlen=round(KEPT_SECONDS / FRAME_SECONDS))
        """The last frames sent, without padding."""
        self.sent = 0
        """Samples sent."""

    def add(self, text: str, pcm: Pcm) -> None:
        """Append audio; `text` opens the clause it belongs to, and is empty for more of the same clause."""
        if text:
            self._starts.append((text, self._queued))
        if pcm.size:
            self._waiting.append(pcm)
            self._samples += pcm.size
            self._queued += pcm.size

    def finish(self) -> None:
        """No more audio will come: the last, short frame may go."""
        self._complete = True

    @property
    def complete(self) -> bool:
        """Everything was added and sent."""
        return self._complete and self._samples == 0

    @property
    def seconds_waiting(self) -> float:
        """Audio not yet sent."""
        return self._samples / self.rate

    def next_frame(self) -> Pcm | None:
        """The next 20 ms, padded with silence at the very end; None when too little is there."""
        if not self.ready:
            return None
        parts: list[Pcm] = []
        missing = self._frame
        while missing and self._waiting:
            part = self._waiting.popleft()
            if part.size > missing:
                self._waiting.appendleft(part[missing:])
                part = part[:missing]
            parts.append(part)
            missing -= part.size
        self._samples -= self._frame - missing
        self.sent += self._frame - missing
        frame = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self._kept.append(frame)
        return np.concatenate([frame, np.zeros(missing, np.float32)]) if missing else frame

    @property
    def ready(self) -> bool:
        """Whether `next_frame` has one."""
        return self._samples >= self._frame or (self._complete and self._samples > 0)

    def rewind(self, heard: float) -> None:
        """Take back what was sent beyond the first `heard` seconds, to where it was last quiet if that is near."""
        while self._kept and self.sent > round(heard * self.rate):
            self._take_back()
        near = list(self._kept)[-round(BACK_SECONDS / FRAME_SECONDS) :]
        loud = next((i for i, frame in enumerate(reversed(near)) if np.sqrt(np.mean(frame**2)) < _QUIET), 0)
        for _ in range(loud):
            self._take_back()

    def _take_back(self) -> None:
        frame = self._kept.pop()
        self._waiting.appendleft(frame)
        self._samples += frame.size
        self.sent -= frame.size

    def clauses(self) -> tuple[SpokenClause, ...]:
        """The clauses so far with their lengths in seconds; the last one's as far as it is known."""
        ends = [start for _, start in self._starts[1:]] + [self._queued]
        return tuple(
            SpokenClause(text, (end - start) / self.rate)
            for (text, start), end in zip(self._starts, ends, strict=False)
        )

    def begun(self, heard: float) -> str:
        """The text of all clauses whose audio began within the first `heard` seconds."""
        text, start = "", 0.0
        for clause in self.clauses():
            if start > heard:
                break
            text += clause.text
            start += clause.seconds
        return text


class Playout:
    """Sends one reply's audio over a leg.

    `filler` is played once if no audio comes for `patience` seconds when it should; it is no part of
    what was said.
    `on_text` is called with the text of each clause as its first frame is sent, `on_first` when
    the first frame is sent.
    """

    def __init__(
        self,
        leg: CallLeg,
        source_rate: int,
        *,
        filler: Pcm | None = None,
        patience: float = PATIENCE,
        on_first: Callable[[float], Awaitable[None]],
        on_text: Callable[[str], Awaitable[None]],
    ) -> None:
        self._leg = leg
        self._resampler = Resampler(source_rate, leg.rate)
        self.buffer = PlayoutBuffer(leg.rate)
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._on_first, self._on_text = on_first, on_text
        self._filler, self._patience = filler, patience
        self._told = ""
        self._begun = False
        self._anchor: float | None = None
        """Loop time at which the caller hears sample 0, were there no gaps."""
        self._going = asyncio.Event()
        self._going.set()
        self._held_at: float | None = None
        """Seconds that the caller had heard when the reply was put on hold."""

    async def room(self) -> None:
        """Wait until more audio is worth making."""
        await self._room.wait()

    def put(self, text: str, pcm: Pcm) -> None:
        """Queue audio at the source rate. It never waits: whoever makes it would hold up others with it."""
        self.buffer.add(text, self._resampler.push(pcm))
        if self.buffer.seconds_waiting > BUFFER_SECONDS:
            self._room.clear()
        self._more.set()

    def finish(self) -> None:
        """All audio was queued."""
        self.buffer.add("", self._resampler.push(np.zeros(0, np.float32), last=True))
        self.buffer.finish()
        self._more.set()

    def hold(self) -> None:
        """Send nothing more until `resume`."""
        self._going.clear()

    def rewind(self, now: float, unplayed: float) -> None:
        """On hold: go back to what the caller had heard by `now`, `unplayed` seconds being lost in the leg."""
        if self._anchor is not None and self._held_at is None:
            self._held_at = self.heard(now, unplayed)
            self.buffer.rewind(self._held_at)
            self._anchor = None

    def resume(self) -> None:
        """Go on from there."""
        self._held_at = None
        self._going.set()

    async def run(self, gate: asyncio.Event) -> None:
        """From when the gate opens: send until everything was sent and, by the clock, heard."""
        await gate.wait()
        loop = asyncio.get_running_loop()
        while True:
            await self._going.wait()
            if self.buffer.ready:
                await self._send(loop)
            elif not self.buffer.complete:
                await self._dry()
            elif (left := self._unheard(loop.time())) > 0:
                await asyncio.sleep(min(left, FRAME_SECONDS))
            else:
                return

    async def _dry(self) -> None:
        """Wait for more audio; if it takes too long, play the filler."""
        self._more.clear()
        try:
            async with asyncio.timeout(None if self._filler is None else self._patience):
                await self._more.wait()
        except TimeoutError:
            filler, self._filler = self._filler, None
            if filler is not None:
                self.put(" ", filler)

    def _unheard(self, now: float) -> float:
        """Seconds that the caller still hears of what was sent."""
        return 0.0 if self._anchor is None else self._anchor + self.buffer.sent / self.buffer.rate - now

    async def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        played = self.buffer.sent / self.buffer.rate
        now = loop.time()
        if self._anchor is None or now - self._anchor - played > FRAME_SECONDS:
            self._anchor = now - played  # the first frame, or the caller heard a gap
        due = self._anchor + played - LEAD
        if due > now:
            await asyncio.sleep(due - now)
        frame = self.buffer.next_frame() if self._going.is_set() else None
        if frame is None:
            return  # put on hold while it waited
        if self.buffer.seconds_waiting < BUFFER_SECONDS / 2:
            self._room.set()
        first, self._begun = not self._begun, True
        await self._leg.play(frame)
        if first:
            await self._on_first(loop.time())
        text = self.buffer.begun(self.buffer.sent / self.buffer.rate)
        if len(text) > len(self._told):
            await self._on_text(text[len(self._told) :])
            self._told = text

    def heard(self, now: float, unplayed: float = 0.0) -> float:
        """Seconds the caller has heard by `now`: what the clock allows, less what the leg knows to be unplayed."""
        if self._held_at is not None:
            return self._held_at
        if self._anchor is None:
            return 0.0
        sent = self.buffer.sent / self.buffer.rate
        return max(0.0, min(sent - unplayed, now - self._anchor))

    def heard_text(self, heard: float) -> str:
        """The words heard in the first `heard` seconds."""
        return heard_text(self.buffer.clauses(), heard)
