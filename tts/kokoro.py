"""Kokoro-82M with all its voices: text to phonemes and tokens, which a `KokoroModel` speaks.

A voice file is float32 (510, 1, 256): the style vector for each number of tokens. The first letter
of a voice's name is its language. Phonemes: espeak's (from the GPL worker process, mapped to
Kokoro's alphabet as misaki does) for most languages, misaki's Mandarin for `z` voices.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from budget.deadline import Stage
from budget.errors import EngineError, ModelError
from tts.piper import phonemizer
from tts.speech import Pcm, Voice

_MOST_TOKENS = 509
_VOCABULARY = dict(
    zip(
        ';:,.!?—…"()“” \u0303ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyz'
        "ɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ",
        [
            *(1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 31, 33, 35, 36),
            *(39, 41, 42, 43, 44, 45, 46, 47, 48, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65),
            *(66, 67, 68, 69, 70, 71, 72, 75, 76, 77, 78, 80, 81, 82, 83, 85, 86, 87, 90, 92, 99, 101, 102, 103),
            *(110, 111, 112, 113, 114, 115, 116, 118, 119, 120, 123, 125, 126, 128, 129, 130, 131, 132, 133, 135),
            *(136, 138, 139, 140, 142, 143, 147, 148, 156, 157, 158, 162, 164, 169, 171, 172, 173, 177),
        ],
        strict=True,
    )
)
"""Kokoro's phonemes and their token numbers (config.json of hexgrad/Kokoro-82M)."""
LANGUAGES = {
    "a": "en-us",
    "b": "en-gb-x-rp",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-br",
    "z": "cmn",
}
"""First letter of a voice's name to espeak's name of its language."""
_PREFERRED = {"en": "af_heart", "zh": "zf_xiaobei", "es": "ef_dora", "fr": "ff_siwis", "it": "if_sara", "pt": "pf_dora"}
_DIPHTHONGS = {"aɪ": "I", "aʊ": "W", "eɪ": "A", "ɔɪ": "Y", "tʃ": "ʧ", "dʒ": "ʤ"}
_AMERICAN = {"oʊ": "O", "ɜːɹ": "ɜɹ", "ɜː": "ɜɹ", "ɪə": "iə", "ɚ": "əɹ", "ɐ": "ə", "ː": ""}
_BRITISH = {"əʊ": "Q", "eə": "ɛː", "iə": "ɪə", "ɐ": "ə"}


@dataclass(frozen=True)
class Style:
    """A voice by its name, and its speed (1.0 = normal)."""

    name: str
    speed: float


class Styles:
    """The voices in a folder. Raises `ModelError` if there are none."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.names = tuple(sorted(path.stem for path in directory.glob("*.bin")))
        if not self.names:
            raise ModelError(f"no Kokoro voices in {directory}; run `halfsecond models pull kokoro`")
        self._known: dict[str, Pcm] = {}

    def vector(self, name: str, tokens: int) -> Pcm:
        """The style of a voice for so many tokens: float32 (256,)."""
        if name not in self._known:
            self._known[name] = np.fromfile(self._directory / f"{name}.bin", np.float32).reshape(-1, 256)
        vector: Pcm = self._known[name][tokens - 1]
        return vector


class KokoroModel(Protocol):
    """Turns phonemes into sound; shared by all calls."""

    async def speak(self, tokens: list[int], style: Style, deadline: float) -> Pcm:
        """The audio (24 kHz) of up to 509 tokens, the earliest `deadline` (loop seconds) first.

        Raises `EngineError`.
        """
        ...

    async def close(self) -> None:
        """Free everything."""
        ...


class KokoroSynthesizer:
    """The shared model with its phonemiser (the Piper program without a voice)."""

    rate = 24_000

    def __init__(self, model: KokoroModel, styles: Styles) -> None:
        self._model, self._names = model, styles.names
        self._phonemizer = phonemizer()

    def voices(self) -> tuple[str, ...]:
        """See `Synthesizer`."""
        return self._names

    async def speak(self, text: str, voice: Voice, *, deadline: float = float("inf")) -> AsyncGenerator[Pcm, None]:
        """See `Synthesizer`. A clause longer than 509 phonemes comes in several chunks."""
        name = self._name(voice)
        try:
            phonemes = await self._phonemes(text, name)
        except (ConnectionError, OSError, ValueError) as error:
            raise EngineError(Stage.TTS, f"Kokoro: {error}", retryable=True) from error
        tokens = [_VOCABULARY[p] for p in phonemes if p in _VOCABULARY]
        for start in range(0, len(tokens), _MOST_TOKENS):
            yield await self._model.speak(tokens[start : start + _MOST_TOKENS], Style(name, voice.speed), deadline)

    async def warm(self) -> None:
        """See `Synthesizer`."""
        async for _ in self.speak("One moment, please.", Voice()):
            pass

    async def close(self) -> None:
        """See `Synthesizer`."""
        await self._phonemizer.close()
        await self._model.close()

    def _name(self, voice: Voice) -> str:
        if voice.name in self._names:
            return voice.name
        preferred = _PREFERRED.get(voice.language.split("-")[0], _PREFERRED["en"])
        return preferred if preferred in self._names else self._names[0]

    async def _phonemes(self, text: str, name: str) -> str:
        if name.startswith("z"):
            return await asyncio.to_thread(_mandarin, text)
        request = {"phonemize": text, "language": LANGUAGES.get(name[0], "en-us")}
        sentences: list[str] = []
        async for header, _ in self._phonemizer.answers(request):
            sentences += header["phonemes"]
        return to_kokoro(" ".join(sentences), name[0])


def to_kokoro(phonemes: str, letter: str) -> str:
    """espeak's IPA in Kokoro's alphabet (misaki's table); `letter` is the voice's language."""
    said = phonemes.replace("r", "ɹ").replace("ʲ", "").replace("x", "k" if letter in "ab" else "x")
    table = {**_DIPHTHONGS, **(_AMERICAN if letter == "a" else _BRITISH if letter == "b" else {})}
    for ipa, kokoro in table.items():
        said = said.replace(ipa, kokoro)
    said = re.sub(r"(\S)\u0329", r"ᵊ\1", said)
    return said.strip()


def _mandarin(text: str) -> str:
    """Mandarin text as misaki's phonemes with tone arrows."""
    from misaki.zh import ZHG2P  # loads a 20 MB dictionary: only where Mandarin is spoken

    return str(ZHG2P()(text)[0])
