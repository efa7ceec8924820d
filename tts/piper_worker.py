"""The Piper program: a process of its own that speaks and phonemises for whoever holds its pipes.

It imports `piper` (GPL-3.0) and is therefore run, never imported, by the service. One JSON line a
request on standard input: {"id", "speak", "speed", "speaker"} or {"id", "phonemize", "language"}.
Answers on standard output: a JSON line {"id", "bytes"} and that many bytes of 16-bit audio, once a
sentence; {"id", "phonemes"}; {"id", "error"}; and {"id", "done": true} at the end of each request.
"""

import argparse
import json
import os
import sys
from typing import Any, BinaryIO

import onnxruntime
from piper import PiperVoice
from piper.config import PiperConfig, SynthesisConfig
from piper.phonemize_espeak import EspeakPhonemizer


def load(path: str, threads: int) -> PiperVoice:
    """The voice on a session of our own, so that threads and spinning can be set."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with open(f"{path}.json", encoding="utf-8") as config:
        settings = PiperConfig.from_dict(json.load(config))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return PiperVoice(session=session, config=settings)


def answer(voice: PiperVoice | None, phonemizer: EspeakPhonemizer, request: dict[str, Any], out: BinaryIO) -> None:
    """Serve one request; errors are told to the other side."""
    number = request["id"]

    def tell(payload: bytes = b"", **header: Any) -> None:
        out.write(json.dumps({"id": number, **header}).encode() + b"\n" + payload)
        out.flush()

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
    arguments = parser.parse_args()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    voice = load(arguments.model, arguments.threads) if arguments.model else None
    phonemizer = EspeakPhonemizer()
    for line in sys.stdin.buffer:
        answer(voice, phonemizer, json.loads(line), out)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(0)
