"""Short clauses are spoken once and remembered."""

from collections.abc import AsyncGenerator

import numpy as np

from tts.openers import OpenerMemory
from tts.speech import Voice


class Counting:
    rate = 16_000

    def __init__(self) -> None:
        self.spoken: list[str] = []

    def voices(self) -> tuple[str, ...]:
        return ("a", "b")

    async def speak(self, text: str, voice: Voice, *, deadline: float = 0.0) -> AsyncGenerator[np.ndarray, None]:
        self.spoken.append(text)
        for i in range(2):
            yield np.full(len(text), i, np.float32)

    async def warm(self) -> None: ...

    async def close(self) -> None: ...


async def sound(memory: OpenerMemory, text: str, voice: Voice) -> np.ndarray:
    return np.concatenate([pcm async for pcm in memory.speak(text, voice)])


async def test_a_short_clause_is_made_once_for_each_voice_and_sounds_the_same() -> None:
    engine = Counting()
    memory = OpenerMemory(engine)
    first = await sound(memory, "Of course,", Voice("a"))
    again = await sound(memory, " Of course,", Voice("a"))
    assert (first == again).all()
    await sound(memory, "Of course,", Voice("b"))
    await sound(memory, "Of course,", Voice("a", speed=1.5))
    assert engine.spoken == ["Of course,"] * 3


async def test_long_clauses_and_figures_are_not_kept() -> None:
    engine = Counting()
    memory = OpenerMemory(engine)
    for text in ("Your code is 12,", "this clause has too many words"):
        await sound(memory, text, Voice())
        await sound(memory, text, Voice())
    assert len(engine.spoken) == 4


async def test_the_least_used_is_forgotten_first_and_a_clause_that_broke_off_is_not_kept() -> None:
    engine = Counting()
    memory = OpenerMemory(engine, kept=2)
    for text in ("One,", "Two,", "One,", "Three,", "One,", "Two,"):
        await sound(memory, text, Voice())
    assert engine.spoken == ["One,", "Two,", "Three,", "Two,"]
    stream = memory.speak("Four,", Voice())
    async for _ in stream:
        break
    await stream.aclose()
    await sound(memory, "Four,", Voice())
    assert engine.spoken[-2:] == ["Four,", "Four,"]
