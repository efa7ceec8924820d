"""Kokoro-82M through onnxruntime, with all its voices.

A voice file is float32 (510, 1, 256): the style vector for each number of tokens. The first letter
of a voice's name is its language. Phonemes: espeak's (from the GPL worker process, mapped to
Kokoro's alphabet as misaki does) for most languages, misaki's Mandarin for `z` voices.
"""

import re
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime

from budget.deadline import Stage
from budget.errors import EngineError, ModelError
from budget.memory import MB, Reservation
from budget.scheduler import QueueFull, Scheduler
from budget.work import Urgency
from tts.piper import PiperProcess
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


def reservation(model: Path) -> Reservation:
    """What the model and its phonemiser (the Piper program without a voice) will hold."""
    stored = model.stat().st_size
    return Reservation("kokoro", "cpu", stored + 120 * MB, 8 * stored)


class KokoroSynthesizer:
    """The shared model; clauses wait in the scheduler."""

    rate = 24_000

    def __init__(self, model: Path, voices: Path, scheduler: Scheduler, *, threads: int = 2) -> None:
        if not model.is_file() or not any(voices.glob("*.bin")):
            raise ModelError(f"no Kokoro model at {model} with voices in {voices}; `halfsecond models pull kokoro`")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = False  # a plan would be kept for each length of text
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        inputs = {entry.name for entry in self._session.get_inputs()}
        self._tokens_input = "input_ids" if "input_ids" in inputs else "tokens"
        self._directory = voices
        self._names = tuple(sorted(path.stem for path in voices.glob("*.bin")))
        self._styles: dict[str, Pcm] = {}
        self._scheduler = scheduler
        self._phonemizer = PiperProcess(None)

    def voices(self) -> tuple[str, ...]:
        """See `Synthesizer`."""
        return self._names

    async def speak(self, text: str, voice: Voice, *, deadline: float = float("inf")) -> AsyncGenerator[Pcm, None]:
        """See `Synthesizer`. A clause longer than 509 phonemes comes in several chunks."""
        name = self._name(voice)
        try:
            phonemes = await self._phonemes(text, name)
            for start in range(0, len(phonemes), _MOST_TOKENS):
                work = partial(self._synthesize, phonemes[start : start + _MOST_TOKENS], name, voice.speed)
                yield await self._scheduler.run(work, Urgency.FIRST_AUDIO, deadline=deadline)
        except (QueueFull, ConnectionError, OSError, ValueError) as error:
            raise EngineError(Stage.TTS, f"Kokoro: {error}", retryable=True) from error

    async def warm(self) -> None:
        """See `Synthesizer`."""
        async for _ in self.speak("One moment, please.", Voice()):
            pass

    async def close(self) -> None:
        """See `Synthesizer`."""
        await self._phonemizer.close()
        self._scheduler.close()

    def _name(self, voice: Voice) -> str:
        if voice.name in self._names:
            return voice.name
        preferred = _PREFERRED.get(voice.language.split("-")[0], _PREFERRED["en"])
        return preferred if preferred in self._names else self._names[0]

    async def _phonemes(self, text: str, name: str) -> str:
        if name.startswith("z"):
            return await self._scheduler.run(partial(_mandarin, text), Urgency.FIRST_AUDIO)
        request = {"phonemize": text, "language": LANGUAGES.get(name[0], "en-us")}
        sentences: list[str] = []
        async for header, _ in self._phonemizer.answers(request):
            sentences += header["phonemes"]
        return to_kokoro(" ".join(sentences), name[0])

    def _synthesize(self, phonemes: str, name: str, speed: float) -> Pcm:
        tokens = [_VOCABULARY[p] for p in phonemes if p in _VOCABULARY]
        if not tokens:
            return np.zeros(0, np.float32)
        style = self._style(name)[len(tokens) - 1]
        feed = {
            self._tokens_input: np.array([[0, *tokens, 0]], np.int64),
            "style": style.reshape(1, 256),
            "speed": np.array([speed], np.float32),
        }
        return np.asarray(self._session.run(None, feed)[0], np.float32).ravel()

    def _style(self, name: str) -> Pcm:
        if name not in self._styles:
            self._styles[name] = np.fromfile(self._directory / f"{name}.bin", np.float32).reshape(-1, 1, 256)
        return self._styles[name]


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
