"""The Piper program: a process of its own that speaks and phonemises for whoever holds its pipes.

It imports `piper` (GPL-3.0) and is therefore run, never imported, by the service. One JSON line a
request on standard input: {"id", "speak", "speed", "speaker"} or {"id", "phonemize", "language"}, each with a
"lane": requests of one lane are served one after the other, those of two lanes side by side on the same voice,
so that a clause somebody waits for is not held up by a long one that is not due yet. Answers on standard
output: a JSON line {"id", "bytes"} and that many bytes of 16-bit audio, once a sentence; {"id", "phonemes"};
{"id", "error"}; and {"id", "done": true} at the end of each request.
"""

import argparse
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from piper import PiperVoice
from piper.config import PiperConfig, SynthesisConfig
from piper.phonemize_espeak import EspeakPhonemizer

from budget.onnx import onnx_session

_LANES = 2
_BULK = 9
"""How nice the second lane is: what is not due yet gives way to recognition (5) and to everything that is."""
_WAITING = 64
"""Requests that may wait in a lane; beyond it no more are read."""


def load(path: str, threads: int, device: str, memory: int) -> PiperVoice:
    """The voice on a session of our own, so that threads, spinning and a card's memory are bounded."""
    with open(f"{path}.json", encoding="utf-8") as config:
        settings = PiperConfig.from_dict(json.load(config))
    session = onnx_session(Path(path), threads=threads, device=device, memory=memory)
    return PiperVoice(session=session, config=settings)


class Answers:
    """Writes answers whole, whichever lane they come from."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def tell(self, number: int, payload: bytes = b"", **header: Any) -> None:
        """One header, with the audio it announces."""
        with self._lock:
            self._out.write(json.dumps({"id": number, **header}).encode() + b"\n" + payload)
            self._out.flush()


def one_at_a_time(voice: PiperVoice | None, phonemizer: EspeakPhonemizer) -> None:
    """Let lanes phonemise in turns: espeak-ng keeps its state in globals."""
    lock = threading.Lock()

    def guarded(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            with lock:
                return work(*arguments)

        return run

    phonemizer.phonemize = guarded(phonemizer.phonemize)
    if voice is not None:
        voice.phonemize = guarded(voice.phonemize)


def answer(voice: PiperVoice | None, phonemizer: EspeakPhonemizer, request: dict[str, Any], answers: Answers) -> None:
    """Serve one request; errors are told to the other side."""
    number = request["id"]

    def tell(payload: bytes = b"", **header: Any) -> None:
        answers.tell(number, payload, **header)

    try:
        if "phonemize" in request:
            sentences = phonemizer.phonemize(request["language"], request["phonemize"])
            tell(phonemes=["".join(sentence) for sentence in sentences])
        elif voice is None:
            tell(error="this worker has no voice loaded")
            return
        else:
            config = SynthesisConfig(
                speaker_id=request.get("speaker"), length_scale=voice.config.length_scale / request["speed"]
            )
            for chunk in voice.synthesize(request["speak"], config):
                audio = chunk.audio_int16_bytes
                tell(audio, bytes=len(audio))
    except Exception as error:  # noqa: BLE001 - one bad clause must not end the process
        tell(error=f"{type(error).__name__}: {error}")
        return
    tell(done=True)


def main() -> None:
    """Serve until standard input closes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--memory", type=int, default=0, help="bytes of the card")
    arguments = parser.parse_args()
    answers = Answers(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    voice = None
    if arguments.model:
        voice = load(arguments.model, arguments.threads, arguments.device, arguments.memory)
    phonemizer = EspeakPhonemizer()
    one_at_a_time(voice, phonemizer)
    lanes: dict[int, queue.Queue[dict[str, Any]]] = {}

    def serve(lane: "queue.Queue[dict[str, Any]]", nice: int) -> None:
        if nice:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
        while True:
            try:
                answer(voice, phonemizer, lane.get(), answers)
            except BrokenPipeError:
                os._exit(0)

    for line in sys.stdin.buffer:
        request = json.loads(line)
        number = int(request.get("lane", 0)) % _LANES
        if number not in lanes:
            lanes[number] = queue.Queue(_WAITING)
            threading.Thread(target=serve, args=(lanes[number], number * _BULK), daemon=True).start()
        lanes[number].put(request)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(0)
