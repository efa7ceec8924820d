"""Whisper through CTranslate2 in INT8, with a context as short as the speech allows.

The usual 30 s window makes the encoder cost the same for one word as for a paragraph. Here the
audio is padded with silence (not the mel: that loses words) to `speech + room`, at least
`floor` seconds, and a transcript that its guards don't believe is decoded again with more.
Frame counts are multiples of 50 and never 150-160 or 250-256: there CTranslate2 takes an
encoder output as long as the number of mel bins for raw mel and encodes it twice.
"""

import json
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import ctranslate2
import numpy as np
import opencc
import tokenizers
from faster_whisper.feature_extractor import FeatureExtractor

from asr.guards import Judgement, judge, said_once, token_bound
from asr.recognizer import DecodeRequest, Pcm
from asr.transcript import Transcript, Word
from budget import cuda_libraries
from budget.deadline import Stage
from budget.errors import EngineError, ModelError
from budget.memory import Reservation
from budget.scheduler import QueueFull, Scheduler
from budget.work import Urgency, Work

RATE = 16_000
_MEL_RATE = 100
_MOST_FRAMES = 3_000
_CJK = {"zh", "ja", "th", "lo", "my", "yue"}
"""Languages written without spaces: every token may be a word."""


@dataclass(frozen=True)
class ContextRule:
    """How much audio the encoder sees: speech plus `room`, at least `floor` seconds."""

    floor: float
    room: float

    def frames(self, seconds: float) -> int:
        """Mel frames (10 ms each): a multiple of 50 that no model takes for mel bins, 3,000 at most."""
        frames = -(-int(max(self.floor, seconds + self.room) * _MEL_RATE) // 50) * 50
        return min(_MOST_FRAMES, max(300, frames))


CONTEXT = ContextRule(floor=6.0, room=2.0)
"""Less than 2 s of silence behind the speech, and the text starts over; `said_once` undoes most of that."""
SECOND_CONTEXT = ContextRule(floor=13.0, room=5.0)
"""For a transcript that the guards don't believe: half the cost of all 30 s, and it loops no more often."""


FINALS, PARTIALS = 2, 1
"""Decodes at once: final ones, and partial ones by an instance of their own (`asr/background`)."""


_CUDA = 500_000_000
"""What the runtime takes of a card before any model is there: a CUDA context and cuBLAS (300-600 MB are usual)."""


def reservation(directory: Path, *, device: str, engine: str = "whisper") -> Reservation:
    """What the model in `directory` will hold, stored in half precision and loaded in INT8: twice, once on a card.

    Measured with base, 145 MB: 80 MB of weights each time, and up to 85 MB a decode of 28 s with word times;
    with AVX-512 and AMX up to 438 MB in all, without 377.
    """
    eight_bits = 0.64 * (directory / "model.bin").stat().st_size
    work = int(eight_bits * (FINALS + PARTIALS))
    if device == "cpu":
        return Reservation(engine, device, int(2 * eight_bits), work)
    return Reservation(engine, device, int(eight_bits), _CUDA + work)


class WhisperRecognizer:
    """The shared model; requests wait in the scheduler, most urgent first.

    `workers` decodes run side by side on the same weights, each on `threads` threads.
    """

    def __init__(
        self,
        directory: Path,
        scheduler: Scheduler,
        *,
        threads: int = 1,
        workers: int = 1,
        device: str = "cpu",
        share: Work | None = None,
    ) -> None:
        compute = "int8" if device == "cpu" else "int8_float16"
        if device != "cpu":
            cuda_libraries.preload()
        try:
            self._model = ctranslate2.models.Whisper(
                str(directory), device=device, compute_type=compute, intra_threads=threads, inter_threads=workers
            )
            self._tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        except Exception as error:  # the runtime raises RuntimeError, the tokenizer a bare Exception
            raise ModelError(f"Whisper in {directory} can't be loaded: {error}") from error
        self._scheduler = scheduler
        self._share = share or Work()
        self._mel = FeatureExtractor(feature_size=self._model.n_mels)
        self._simplify = opencc.OpenCC("t2s")
        self._suppressed = json.loads((directory / "config.json").read_text()).get("suppress_ids", [-1])

    @cached_property
    def languages(self) -> frozenset[str]:
        """Codes that this model knows."""
        if not self._model.is_multilingual:
            return frozenset({"en"})
        vocabulary = self._tokenizer.get_vocab()
        special = (token[2:-2] for token in vocabulary if token.startswith("<|") and token.endswith("|>"))
        return frozenset(token for token in special if 2 <= len(token) <= 3 and token.islower())

    def spare(self, own: int) -> bool:
        """See `Recognizer`."""
        return self._scheduler.idle and self._share.quiet(own)

    def close(self) -> None:
        """Let the decodes in progress finish and end the threads: the runtime must not outlive the process."""
        self._scheduler.close()

    async def decode(self, request: DecodeRequest, urgency: Urgency, *, deadline: float = float("inf")) -> Transcript:
        """See `Recognizer`. A language of "auto" is detected and reported in the transcript."""
        try:
            return await self._scheduler.run(partial(self.decode_now, request), urgency, deadline=deadline)
        except QueueFull:
            raise
        except (RuntimeError, ValueError) as error:
            raise EngineError(Stage.ASR, f"Whisper failed: {error}", retryable=True) from error

    def decode_now(self, request: DecodeRequest) -> Transcript:
        """Decode on this thread: short context first, a longer one if the guards don't believe the result."""
        seconds = len(request.pcm) / RATE
        frames = CONTEXT.frames(seconds)
        transcript = self._decode(request, frames)
        longer = SECOND_CONTEXT.frames(seconds)
        verdict = judge(transcript, request.speech_seconds, last_try=frames >= longer)
        if verdict.judgement is Judgement.RETRY and request.final:
            transcript = self._decode(request, longer)
            verdict = judge(transcript, request.speech_seconds, last_try=True)
        if verdict.judgement is not Judgement.KEEP:
            return replace(transcript, text="", words=())
        return transcript

    def _decode(self, request: DecodeRequest, frames: int) -> Transcript:
        encoded = self._encode(request.pcm, frames)
        if not request.final and self._scheduler.waits_before(Urgency.PARTIAL):
            raise QueueFull("a final decode is waiting")
        language = self._language(request.language, encoded)
        prompt = self._prompt(language)
        bound = token_bound(len(request.pcm) / RATE, wide=language in _CJK)
        result = self._model.generate(
            encoded,
            [prompt],
            beam_size=1,
            max_length=min(448, 2 * (bound + len(prompt))),  # the runtime generates half of it at most
            return_scores=True,
            return_no_speech_prob=True,
            suppress_tokens=self._suppressed,
        )[0]
        end = self._token("<|endoftext|>")
        ids = [token for token in result.sequences_ids[0] if token < end]
        text = self._text(ids, language)
        spoken = min(frames, int(len(request.pcm) * _MEL_RATE / RATE))
        words = self._words(encoded, prompt, ids, spoken, language) if request.want_words and ids else ()
        transcript = Transcript(
            text=text,
            words=words,
            language=language,
            log_probability=float(result.scores[0]),
            no_speech_probability=float(result.no_speech_prob),
            tokens=len(ids),
            truncated=len(ids) >= bound,
        )
        return said_once(transcript, request.speech_seconds)

    def _encode(self, pcm: Pcm, frames: int) -> ctranslate2.StorageView:
        padded = np.zeros(frames * RATE // _MEL_RATE, np.float32)
        kept = min(len(pcm), len(padded))
        padded[:kept] = pcm[:kept]
        mel = self._mel(padded, padding=0)[:, :frames]
        view = ctranslate2.StorageView.from_array(np.ascontiguousarray(mel[None], np.float32))
        return self._model.encode(view)

    def _language(self, wanted: str, encoded: ctranslate2.StorageView) -> str:
        if not self._model.is_multilingual:
            return "en"
        if wanted != "auto":
            return wanted
        code: str = self._model.detect_language(encoded)[0][0][0]
        return code[2:-2]

    def _prompt(self, language: str) -> list[int]:
        if not self._model.is_multilingual:
            return [self._token("<|startoftranscript|>"), self._token("<|notimestamps|>")]
        names = ("<|startoftranscript|>", f"<|{language}|>", "<|transcribe|>", "<|notimestamps|>")
        return [self._token(name) for name in names]

    def _token(self, name: str) -> int:
        token = self._tokenizer.token_to_id(name)
        if token is None:
            raise ValueError(f"this Whisper model does not know {name}")
        return int(token)

    def _text(self, ids: list[int], language: str) -> str:
        text = self._tokenizer.decode(ids)
        return str(self._simplify.convert(text)) if language == "zh" else str(text)

    def _words(
        self,
        encoded: ctranslate2.StorageView,
        prompt: list[int],
        ids: list[int],
        frames: int,
        language: str,
    ) -> tuple[Word, ...]:
        """Word times by the cross-attention of the tokens just generated (CTranslate2's `align`).

        `frames` counts the mel frames that hold audio; the times come in steps of 20 ms.
        """
        aligned = self._model.align(encoded, prompt[:3], [ids], frames)[0]
        starts: dict[int, float] = {}
        for token_index, frame in aligned.alignments:
            starts.setdefault(token_index, frame * 0.02)
        starts[len(ids)] = aligned.alignments[-1][1] * 0.02 if aligned.alignments else 0.0
        words: list[Word] = []
        for first, last in self._groups(ids, language):
            text = self._text(ids[first:last], language)
            begin = starts.get(first, words[-1].end if words else 0.0)
            words.append(Word(text, begin, max(begin, starts.get(last, begin))))
        return tuple(words)

    def _groups(self, ids: list[int], language: str) -> list[tuple[int, int]]:
        """Token ranges that are words: split before a space, or wherever the bytes are whole characters."""
        groups: list[tuple[int, int]] = []
        first = 0
        for i in range(1, len(ids) + 1):
            if i < len(ids):
                upcoming = self._tokenizer.decode([ids[i]])
                whole = "\ufffd" not in self._tokenizer.decode(ids[first:i])
                boundary = whole and (language in _CJK or upcoming.startswith(" "))
                if not boundary:
                    continue
            groups.append((first, i))
            first = i
        return groups
