"""What the service hears, against references: through its own turns, over OpenAI Realtime."""

import asyncio
import base64
import json
import re
import unicodedata
from collections.abc import Callable, Sequence

import jiwer
import numpy as np
import websockets

from loadtest.line import Pcm
from loadtest.recordings import Clip, load

RATE = 24_000
_DIGITS = dict(zip("0123456789", "zero one two three four five six seven eight nine".split(), strict=True))
_SPELLED = {"1813": "eighteen thirteen", "10": "ten", "25": "twenty five", "30": "thirty", "20th": "twentieth"}


def normal(text: str) -> str:
    """Text as compared: lower case, no punctuation or remarks, numbers as words."""
    text = re.sub(r"\([^)]*\)", " ", text).lower().replace("-", " ").replace("mr.", "mister")
    words: list[str] = []
    for word in re.sub(r"[^\w\s']", "", text).split():
        if word in _SPELLED:
            words += _SPELLED[word].split()
        elif word.isdigit():
            words += [_DIGITS[digit] for digit in word]
        else:
            words.append("zero" if word == "oh" else word)
    return " ".join(words)


def characters(text: str) -> str:
    """Chinese as compared: characters and digits only."""
    return "".join(c for c in unicodedata.normalize("NFKC", text) if c.isalnum())


async def transcribe(port: int, pcm: Pcm, language: str, *, silence_ms: int | None = None) -> list[str]:
    """Speak a clip (24 kHz) at real time; the texts of the turns that the service made of it."""
    detection = {"type": "server_vad", "create_response": False, "silence_duration_ms": silence_ms}
    session = {
        "type": "realtime",
        "audio": {"input": {"transcription": {"language": language}, "turn_detection": detection}},
    }
    texts: list[str] = []
    async with websockets.connect(f"ws://127.0.0.1:{port}/v1/realtime", max_size=None) as socket:

        async def listen() -> None:
            async for message in socket:
                event = json.loads(message)
                if event["type"] == "conversation.item.input_audio_transcription.completed":
                    texts.append(event["transcript"])

        loop = asyncio.get_running_loop()
        listener = loop.create_task(listen())
        await socket.send(json.dumps({"type": "session.update", "session": session}))
        tail = np.zeros(int(RATE * 2.5 + RATE * (silence_ms or 500) / 1000), np.float32)
        whole = (np.concatenate([tail[: RATE // 2], pcm, tail]) * 32767).astype("<i2")
        began = loop.time()
        for i in range(0, len(whole), 480):
            await asyncio.sleep(max(0.0, began + i / RATE - loop.time()))
            audio = base64.b64encode(whole[i : i + 480].tobytes()).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        listener.cancel()
    return texts


async def error_rate(port: int, chosen: Sequence[Clip], language: str, progress: Callable[[str], None]) -> float:
    """Word error rate over all clips together; of characters for Chinese."""
    references, heard = [], []
    for i, clip in enumerate(chosen):
        progress(f"accuracy: {clip.name}, {i + 1} of {len(chosen)}")
        texts = await transcribe(port, load(clip.path, RATE), language)
        if language == "zh":
            references.append(characters(clip.text))
            heard.append(characters("".join(texts)))
        else:
            references.append(normal(clip.text))
            heard.append(normal(" ".join(texts)))
    return float(jiwer.cer(references, heard) if language == "zh" else jiwer.wer(references, heard))


def seams(reference: str, heard: str) -> tuple[float, list[str]]:
    """Word error rate, and each run of three words or more that was said twice or lost."""
    measured = jiwer.process_words(normal(reference), normal(heard))
    trouble = []
    for piece in measured.alignments[0]:
        words = max(piece.ref_end_idx - piece.ref_start_idx, piece.hyp_end_idx - piece.hyp_start_idx)
        if piece.type == "insert" and words >= 3:
            trouble.append("twice: " + " ".join(measured.hypotheses[0][piece.hyp_start_idx : piece.hyp_end_idx]))
        elif piece.type == "delete" and words >= 3:
            trouble.append("lost: " + " ".join(measured.references[0][piece.ref_start_idx : piece.ref_end_idx]))
    return float(measured.wer), trouble


async def long_clip(port: int, clip: Clip, progress: Callable[[str], None]) -> tuple[float, str]:
    """Word error rate of a long clip, and what was doubled or lost at its seams."""
    progress(f"accuracy: {clip.name}, {clip.seconds:.0f} s")
    texts = await transcribe(port, load(clip.path, RATE), "en", silence_ms=2000)
    rate, trouble = seams(clip.text, " ".join(texts))
    return rate, "; ".join(trouble)


async def invented(port: int, noises: Sequence[Clip], progress: Callable[[str], None]) -> str:
    """All text that came out of noise clips and of a minute of faint noise."""
    said: list[str] = []
    for clip in noises:
        progress(f"silence: {clip.name}")
        said += await transcribe(port, load(clip.path, RATE), "en")
    progress("silence: 60 s of faint noise")
    faint = np.random.default_rng(3).normal(0, 0.001, RATE * 60).astype(np.float32)
    said += await transcribe(port, faint, "en")
    return " | ".join(said)
