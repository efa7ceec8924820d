"""What models for a GPU hold and cost, for planning: sizes that their authors or runtimes publish, not measured here.

Bytes of weights, work in progress (measured by others where the source says so), and of one token in the cache:
2 x layers x key-value heads x head dimension x 2 bytes.
"""

from dataclasses import dataclass

GB = 1_000_000_000
KIB = 1024


@dataclass(frozen=True)
class AsrModel:
    """A recogniser in INT8. `speed` is how many times faster than large-v3 it hears the same card."""

    name: str
    weights: float
    workspace: float
    speed: float
    published: str


@dataclass(frozen=True)
class LlmModel:
    """A language model; `cache` is the bytes of one token of a call's history, `repository` its name on hubs."""

    name: str
    weights: float
    cache: int
    published: str
    repository: str


@dataclass(frozen=True)
class TtsModel:
    """A voice: its bytes, and the seconds in which it speaks a short and a usual clause."""

    name: str
    weights: float
    workspace: float
    first_clause: float
    clause: float
    published: str


_WHISPER = "faster-whisper's README: large-v2 in INT8 takes 2.9 GB running; weights by parameters"
ASR = {
    m.name: m
    for m in (
        AsrModel("large-v3", 1.55 * GB, 1.4 * GB, 1.0, _WHISPER),
        AsrModel("large-v3-turbo", 0.81 * GB, 1.2 * GB, 4.0, f"{_WHISPER}; 4 decoder layers instead of 32"),
        AsrModel("distil-large-v3", 0.76 * GB, 1.2 * GB, 4.0, f"{_WHISPER}; factor 6 on long audio, less on turns"),
    )
}
LLM = {
    m.name: m
    for m in (
        LlmModel(
            "qwen2.5-1.5b-awq",
            1.2 * GB,
            28 * KIB,
            "config.json: 28 layers, 2 heads of 128; INT4",
            "Qwen/Qwen2.5-1.5B-Instruct-AWQ",
        ),
        LlmModel(
            "qwen2.5-7b-awq",
            5.5 * GB,
            56 * KIB,
            "config.json: 28 layers, 4 heads of 128; INT4",
            "Qwen/Qwen2.5-7B-Instruct-AWQ",
        ),
        LlmModel(
            "llama-3.1-8b-awq",
            5.7 * GB,
            128 * KIB,
            "config.json: 32 layers, 8 heads of 128; INT4",
            "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4",
        ),
        LlmModel(
            "qwen3-4b-awq", 2.7 * GB, 144 * KIB, "config.json: 36 layers, 8 heads of 128; INT4", "Qwen/Qwen3-4B-AWQ"
        ),
    )
}
TTS = {
    m.name: m
    for m in (
        TtsModel("kokoro", 0.35 * GB, 0.6 * GB, 0.04, 0.06, "82 M parameters; light voices take under 1 GB"),
        TtsModel("middle", 4.0 * GB, 1.0 * GB, 0.1, 0.2, "voices of some 1.7 B parameters take about 4 GB"),
    )
}
WORKSPACE_LLM = 1.5 * GB
"""Activations and graphs of an LLM server beside its weights and cache."""
CONTEXT_CUDA = 0.5 * GB
"""A CUDA context of one process (300-600 MB)."""
PROCESSES = 2
"""The service, and the language model as a server of its own: an error on the card is then not the end of all calls."""
