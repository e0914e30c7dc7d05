"""What does a GGUF file say about its model?

Reads the metadata and the list of tensors, never the weights, so a file of any size takes
milliseconds. Layout: ggml's ``docs/gguf.md``, versions 2 and 3, little endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO


class GGUFError(ValueError):
    """The file is no GGUF that can be read; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's name, shape (ggml's order: the innermost first) and ggml type number."""

    name: str
    shape: tuple[int, ...]
    type: int

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class GGUF:
    """A file's metadata (``general.architecture``, ``llama.block_count``, ...) and tensors."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: tuple[Tensor, ...]

    @classmethod
    def read(cls, path: str | PathLike[str]) -> GGUF:
        """Read ``path``; ``GGUFError`` if it is none, ``OSError`` if it cannot be opened.

        A model in several files has its metadata in the first one.
        """
        path = Path(path)
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise GGUFError(f"{path} is no GGUF file: it does not begin with the bytes GGUF")
            try:
                return cls(path, *_Reader(file).read())
            except (
                struct.error,
                UnicodeDecodeError,
                KeyError,
                MemoryError,
                OverflowError,
            ) as error:
                raise GGUFError(f"{path} is damaged or cut off in its metadata: {error}") from error

    @property
    def architecture(self) -> str:
        """The model's architecture, the prefix of its own keys: ``llama``, ``gemma3``, ..."""
        return str(self.metadata.get("general.architecture", ""))

    def get(self, key: str, default: Any = None) -> Any:
        """The architecture's own value, ``get("block_count")`` for ``llama.block_count``."""
        return self.metadata.get(f"{self.architecture}.{key}", default)


# The type numbers of metadata values, with struct's letters.
_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_LONGEST = 1 << 28  # bytes of one string: a larger length is garbage


class _Reader:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self) -> tuple[Mapping[str, Any], tuple[Tensor, ...]]:
        version = self._number("I")
        if version not in (2, 3):
            raise KeyError(f"GGUF version {version}, only 2 and 3 are known")
        tensors, entries = self._number("Q"), self._number("Q")
        metadata = {self._string(): self._value(self._number("I")) for _ in range(entries)}
        return metadata, tuple(self._tensor() for _ in range(tensors))

    def _tensor(self) -> Tensor:
        name = self._string()
        shape = self._numbers("Q", self._number("I"))
        kind = self._number("I")
        self._number("Q")  # where its weights lie
        return Tensor(name, tuple(shape), kind)

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            kind, length = self._number("I"), self._number("Q")
            if kind in _NUMBERS:
                return self._numbers(_NUMBERS[kind], length)
            return [self._value(kind) for _ in range(length)]
        return self._number(_NUMBERS[kind])

    def _string(self) -> str:
        # Tokens of byte-level vocabularies need not be whole characters.
        return self._bytes(self._number("Q")).decode("utf-8", "surrogateescape")

    def _number(self, letter: str) -> Any:
        return self._numbers(letter, 1)[0]

    def _numbers(self, letter: str, length: int) -> list[Any]:
        size = struct.calcsize("<" + letter)
        return list(struct.unpack(f"<{length}{letter}", self._bytes(size * length)))

    def _bytes(self, length: int) -> bytes:
        data = self._file.read(length) if length <= _LONGEST else b""
        if len(data) < length:
            raise struct.error(f"{length} bytes were expected at byte {self._file.tell()}")
        return data
