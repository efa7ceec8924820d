"""The shape of a model by the head of its GGUF file: read in a millisecond, before anything is loaded.

Only numbers and texts are taken; the reader stops at the vocabulary, which is long and stands behind
them. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from budget.errors import ModelError

_MAGIC = b"GGUF"
_TEXT, _ARRAY = 8, 9
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_VOCABULARY = "tokenizer."
_MOST_KEYS, _MOST_TEXT, _MOST_ITEMS = 4096, 1 << 20, 4096


@dataclass(frozen=True)
class Shape:
    """What the size of a cache follows from: layers, key-value heads, and values in each head."""

    layers: int
    heads: int
    head: int

    @property
    def values(self) -> int:
        """Values of keys, and as many of values, that one token has in the cache."""
        return self.layers * self.heads * self.head


def shape(path: Path) -> Shape:
    """The model's shape. Raises `ModelError` for what is no GGUF file of a language model."""
    try:
        with path.open("rb") as file:
            found = _numbers(file)
        name = found["general.architecture"]
        layers, queries = int(found[f"{name}.block_count"]), int(found[f"{name}.attention.head_count"])
        heads = int(found.get(f"{name}.attention.head_count_kv", queries))
        head = int(found.get(f"{name}.attention.key_length", int(found[f"{name}.embedding_length"]) // queries))
    except (OSError, ValueError, KeyError, ZeroDivisionError, struct.error) as error:
        raise ModelError(f"{path} is not a GGUF file of a language model that can be read: {error}") from error
    return Shape(layers, heads, head)


def _numbers(file: BinaryIO) -> Mapping[str, float | str]:
    """The keys before the vocabulary's."""
    if file.read(4) != _MAGIC:
        raise ValueError("it does not begin as one")
    _number(file, "<I")
    _number(file, "<Q")
    found: dict[str, float | str] = {}
    for _ in range(min(_MOST_KEYS, int(_number(file, "<Q")))):
        key, kind = _text(file), int(_number(file, "<I"))
        if key.startswith(_VOCABULARY):
            break
        value = _value(file, kind)
        if value is not None:
            found[key] = value
    return found


def _value(file: BinaryIO, kind: int) -> float | str | None:
    """A number or a text; a list is passed over."""
    if kind == _TEXT:
        return _text(file)
    if kind != _ARRAY:
        return _number(file, _NUMBERS[kind])
    inner, count = int(_number(file, "<I")), int(_number(file, "<Q"))
    if inner == _ARRAY or count > _MOST_ITEMS:
        raise ValueError("a list in it is too long")
    for _ in range(count):
        _value(file, inner)
    return None


def _number(file: BinaryIO, layout: str) -> float:
    value: float = struct.unpack(layout, file.read(struct.calcsize(layout)))[0]
    return value


def _text(file: BinaryIO) -> str:
    size = int(_number(file, "<Q"))
    if size > _MOST_TEXT:
        raise ValueError("a text in it is too long")
    return file.read(size).decode(errors="replace")
