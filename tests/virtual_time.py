"""An event loop whose clock jumps to the next timer instead of waiting for it."""

import asyncio
import selectors
from typing import Any


class _JumpingSelector:
    """Adds the time the loop wanted to sleep to the clock, and polls without waiting."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = self._real.select(0)
        if not ready and timeout is None:
            raise RuntimeError("deadlock: the loop would wait for ever")
        if not ready and timeout:
            self.now += timeout
        return ready

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time is `selector.now`: it passes only when there is nothing else to do."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)  # type: ignore[arg-type]

    def time(self) -> float:
        return self._jumping.now
