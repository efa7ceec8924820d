"""Where the files of the configured models lie: the operator's own path, or the catalogue's. Raises `ModelError`."""

from pathlib import Path

from voice.catalogue import CATALOGUE
from voice.config import Settings


def whisper_folder(settings: Settings) -> Path:
    """The recogniser's folder."""
    return settings.asr.path or CATALOGUE.folder(settings.asr.model, settings.models.directory)


def smaller_whisper_folder(settings: Settings) -> Path:
    """The smaller recogniser's folder."""
    return CATALOGUE.folder(settings.asr.smaller, settings.models.directory)


def llama_file(settings: Settings) -> Path:
    """The embedded language model's GGUF file."""
    return settings.llm.path or CATALOGUE.file(settings.llm.model, settings.models.directory)


def kokoro_folder(settings: Settings) -> Path:
    """Where Kokoro's voices are, and its model for onnxruntime."""
    return settings.tts.path or CATALOGUE.folder("kokoro", settings.models.directory)


def kokoro_weights(settings: Settings) -> Path:
    """The folder of Kokoro's weights for PyTorch."""
    return settings.tts.path or CATALOGUE.folder("kokoro-torch", settings.models.directory)


def smart_turn_file(settings: Settings) -> Path:
    """The model that judges how a turn's end sounds."""
    return settings.vad.path or CATALOGUE.file("smart-turn", settings.models.directory)


def piper_file(settings: Settings) -> Path:
    """The Piper voice."""
    return settings.tts.path or CATALOGUE.file("piper-joe", settings.models.directory)
