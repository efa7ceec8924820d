"""The PyTorch Kokoro program: a process of its own, on a card or a processor, for whoever holds its pipes.

It imports `kokoro`, which brings phonemizer (GPL-3.0) along, and is therefore run, never imported, by the
service. One JSON line a request on standard input: {"id", "tokens", "voice", "speed"}. Answers on standard
output: a JSON line {"id", "bytes"} and that many bytes of 16-bit audio at 24 kHz, or {"id", "error"}; then
{"id", "done": true}. The folder holds `config.json` and `kokoro-v1_0.pth`.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from kokoro.model import KModel

_REPOSITORY = "hexgrad/Kokoro-82M"


def load(folder: Path, device: str, memory: int, threads: int) -> KModel:
    """The model on its device; of a card's memory it may take `memory` bytes."""
    torch.set_num_threads(threads)
    if device != "cpu":
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, memory / total), device)
    weights = str(folder / "kokoro-v1_0.pth")
    model = KModel(repo_id=_REPOSITORY, config=str(folder / "config.json"), model=weights)
    return model.to(device).eval()


def speaker(model: KModel, directory: Path) -> Callable[[dict[str, Any]], bytes]:
    """A function from a request to its audio."""
    voices: dict[str, torch.Tensor] = {}

    def speak(request: dict[str, Any]) -> bytes:
        name, tokens = request["voice"], request["tokens"]
        if name not in voices:
            voices[name] = torch.from_numpy(np.fromfile(directory / f"{name}.bin", np.float32).reshape(-1, 256))
        style = voices[name][len(tokens) - 1 : len(tokens)].to(model.device)
        given = torch.tensor([[0, *tokens, 0]], dtype=torch.long, device=model.device)
        audio, _ = model.forward_with_tokens(given, style, request["speed"])
        samples = audio.reshape(-1).float().clamp(-1.0, 1.0).cpu().numpy()
        return bytes((samples * 32767.0).astype("<i2").tobytes())

    return speak


def answer(speak: Callable[[dict[str, Any]], bytes], request: dict[str, Any], out: BinaryIO) -> None:
    """Serve one request; errors are told to the other side."""

    def tell(payload: bytes = b"", **header: Any) -> None:
        out.write(json.dumps({"id": request["id"], **header}).encode() + b"\n" + payload)
        out.flush()

    try:
        audio = speak(request)
    except Exception as error:  # noqa: BLE001 - one bad clause must not end the process
        tell(error=f"{type(error).__name__}: {error}")
        return
    tell(audio, bytes=len(audio))
    tell(done=True)


def main() -> None:
    """Serve until standard input closes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--voices", type=Path, required=True, help="folder of .bin files")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--memory", type=int, default=0, help="bytes of the card")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    model = load(arguments.folder, arguments.device, arguments.memory, arguments.threads)
    speak = speaker(model, arguments.voices)
    for line in sys.stdin.buffer:
        answer(speak, json.loads(line), out)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(0)
