"""The head of a GGUF file: what a cache follows from, and a clear error for anything else."""

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.errors import ModelError
from llm.gguf_header import Shape, shape


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def number(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<II", 4, value)


def header(*entries: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


ARCHITECTURE = text("general.architecture") + struct.pack("<I", 8) + text("llama")
LANGUAGES = text("general.languages") + struct.pack("<IIQ", 9, 8, 2) + text("en") + text("de")
SMALL = (
    ARCHITECTURE,
    LANGUAGES,
    number("llama.block_count", 30),
    number("llama.embedding_length", 576),
    number("llama.attention.head_count", 9),
    number("llama.attention.head_count_kv", 3),
    text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 1 << 40),
)


def test_reads_what_a_cache_follows_from(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(header(*SMALL))
    found = shape(tmp_path / "model.gguf")
    assert found == Shape(layers=30, heads=3, head=64)
    assert found.values == 30 * 3 * 64


def test_a_head_length_of_its_own_counts(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(header(*SMALL[:-1], number("llama.attention.key_length", 128)))
    assert shape(tmp_path / "model.gguf").head == 128


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model", header(ARCHITECTURE), header(SMALL[-1])])
def test_anything_else_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.bin").write_bytes(content)
    with pytest.raises(ModelError, match=r"other\.bin"):
        shape(tmp_path / "other.bin")


@given(st.binary(max_size=200), st.integers(0, 400))
def test_a_broken_file_is_an_error_and_no_crash(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, kept: int
) -> None:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    path.write_bytes(header(*SMALL)[:kept] + noise)
    with contextlib.suppress(ModelError):
        shape(path)
