"""A caller's line: speaks at real time, and knows when it could hear what. What carries it is a subclass's."""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.float32]
FRAME_SECONDS = 0.02
AUDIBLE = 0.01
"""Root mean square of 10 ms above which agent audio counts as heard (-40 dBFS)."""

_SHORTEST_GAP, _LONGEST_GAP = 0.06, 0.5
"""Seconds without agent audio that are a gap: less is not heard, more is between two replies."""
_LOST = 0.015
"""Seconds by which audio came after it was due that cost a frame: less is the timing of the machines."""
PATIENCE = 20.0
"""Seconds within which a call must be set up."""


class Refused(Exception):
    """The call was not taken: why, and after how many seconds the server wants to be asked again, if it said so."""

    def __init__(self, why: str, *, status: int = 0, retry_after: str = "") -> None:
        super().__init__(why + (f", Retry-After {retry_after}" if retry_after else ""))
        self.status = status


class Broken(Exception):
    """The call ended before its time."""


class Line(ABC):
    """One call to a `server` (ws://host:port or http://host:port) at `rate` Hz. Times are the event loop's seconds.

    `key` is sent as the protocol sends keys. Entering raises `Refused` if the call is not taken; speaking
    raises `Broken` once it is over.
    """

    rate: int

    def __init__(self, server: str, key: str = "") -> None:
        self.server, self.key = server.rstrip("/"), key
        self.frame = round(self.rate * FRAME_SECONDS)
        self._noise = np.random.default_rng(0).normal(0, 0.0003, self.frame * 50).astype(np.float32)
        self._sent = 0
        self.set_up = 0.0
        """Seconds from the first packet until the call could be spoken in."""
        self.audible_until = 0.0
        """Until when the caller hears what arrived so far, played in sequence."""
        self.sounds: list[float] = []
        """When each audible 10 ms reached the caller's ear."""
        self.late: list[float] = []
        """Seconds after its time at which each frame was sent: the tester's own fault."""
        self.gaps: list[float] = []
        """Seconds for which agent audio broke off inside a reply."""
        self.lost = 0
        """Frames of agent audio that did not come, or too late to be played in their place."""
        self.caller_said: list[str] = []
        """What the server understood, a turn each, where the protocol tells."""
        self.agent_said: list[str] = []
        """What the server says that it said, a reply each, where the protocol tells."""
        self.records: list[dict[str, Any]] = []
        """The server's own record of each turn, where it tells."""

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        began = self._loop.time()
        try:
            async with asyncio.timeout(PATIENCE):
                await self.open()
        except TimeoutError:
            await self.close()
            raise Refused(f"no call within {PATIENCE:.0f} s") from None
        except BaseException:
            await self.close()
            raise
        self._began = self._loop.time()
        self.set_up = self._began - began
        self._listener = self._loop.create_task(self.listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.cancel()
        await self.close()

    @abstractmethod
    async def open(self) -> None:
        """Set the call up; raises `Refused`."""

    @abstractmethod
    async def close(self) -> None:
        """Hang up, whatever state the call is in."""

    @abstractmethod
    async def send(self, pcm: Pcm) -> None:
        """Send one frame now; raises `Broken`."""

    @abstractmethod
    async def listen(self) -> None:
        """Take the server's messages: call `hear` and `clear`."""

    async def say(self, pcm: Pcm) -> float:
        """Send audio at real time; returns when its last sample was sent."""
        for i in range(0, len(pcm) - self.frame + 1, self.frame):
            await self._frame(pcm[i : i + self.frame])
        return self._loop.time()

    async def wait(self, seconds: float) -> None:
        """Send the line's own faint noise."""
        for _ in range(round(seconds / FRAME_SECONDS)):
            await self.tick()

    async def hear_out(self, silence: float) -> None:
        """Wait until the agent has been silent for `silence` seconds."""
        await self.wait(silence)
        while self._loop.time() < self._heard_last() + silence:
            await self.tick()

    def _heard_last(self) -> float:
        """The end of the last audible sound: a line may carry silence without an end."""
        return self.sounds[-1] + 0.01 if self.sounds else 0.0

    async def tick(self) -> None:
        """Send 20 ms of faint noise."""
        start = self._sent % 50 * self.frame
        await self._frame(self._noise[start : start + self.frame])

    async def _frame(self, pcm: Pcm) -> None:
        self._sent += 1
        due = self._began + self._sent * FRAME_SECONDS
        await asyncio.sleep(max(0.0, due - self._loop.time()))
        self.late.append(self._loop.time() - due)
        await self.send(pcm)

    def hear(self, pcm: Pcm) -> None:
        """Agent audio arrived: it plays behind what is still playing."""
        step, now = self.rate // 100, self._loop.time()
        dry = now - self.audible_until
        if _LOST < dry < _LONGEST_GAP:
            self.lost += max(1, round(dry / FRAME_SECONDS))
        if _SHORTEST_GAP < dry < _LONGEST_GAP:
            self.gaps.append(dry)
        begin = max(now, self.audible_until)
        blocks = pcm[: len(pcm) // step * step].reshape(-1, step)
        loud = np.flatnonzero(np.sqrt((blocks**2).mean(axis=1)) > AUDIBLE)
        self.sounds += [begin + 0.01 * int(i) for i in loud]
        self.audible_until = begin + len(pcm) / self.rate

    def clear(self) -> None:
        """What was not played yet is thrown away."""
        now = self._loop.time()
        self.sounds = [at for at in self.sounds if at <= now]
        self.audible_until = now
