"""Which bytes does a transcript consist of, wherever it lies and however it is packed?

A file or a pipe, plain or packed (gzip, Zstandard), read once from front to back. Lines come one at
a time, so that memory does not grow with the file; a document is read whole, up to a bound.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from kvagent.audit import zstd
from kvagent.audit.names import STANDARD, called
from kvagent.audit.transcript import CannotRead, Place, Unreadable

# A request with pictures has some tens of millions of bytes; a line beyond this is no record.
LONGEST_LINE = 1 << 26
LARGEST_DOCUMENT = 1 << 27

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line and its number, from 1; its line end may be part of it."""

    number: int
    data: bytes


class TooLarge(Exception):
    """A document is beyond what is read whole; the text says so."""


@dataclass(slots=True)
class Source:
    """The bytes of one transcript."""

    name: str
    stream: BinaryIO
    broken: tuple[type[Exception], ...] = (OSError,)
    """What the stream raises where the file is damaged."""
    breaks_off: bool = False
    """Whether it has raised that: what came after is missing."""
    _ahead: deque[Line | Unreadable] = field(default_factory=deque)
    _number: int = 0
    _over: bool = False

    def ahead(self, lines: int, size: int) -> list[Line]:
        """The next lines, at least one, up to so many lines or bytes; they are given again later."""
        have = 0
        while len(self._ahead) < lines and have < size:
            line = self._next()
            if line is None:
                break
            self._ahead.append(line)
            have += len(line.data) if isinstance(line, Line) else 0
        return [line for line in self._ahead if isinstance(line, Line)]

    @property
    def at_end(self) -> bool:
        """Whether there is nothing beyond what was read ahead."""
        if not self._over:
            line = self._next()
            if line is not None:
                self._ahead.append(line)
                return False
        return True

    def lines(self) -> Iterator[Line | Unreadable]:
        """Every line; one that is too long is passed over and told as what could not be read."""
        while self._ahead:
            yield self._ahead.popleft()
        while (line := self._next()) is not None:
            yield line

    def document(self) -> bytes:
        """All bytes from where the source stands, or up to where it breaks off.

        Raises ``TooLarge``.
        """
        parts: list[bytes] = []
        for line in self._ahead:
            if isinstance(line, Line):
                parts.append(line.data)
            elif not line.is_end:
                raise TooLarge(line.why)
        self._ahead.clear()
        room = LARGEST_DOCUMENT - sum(map(len, parts)) + 1
        while room > 0 and not self._over:
            try:
                part = self.stream.read(min(_CHUNK, room))
            except self.broken:
                part, self.breaks_off = b"", True
            if not part:
                self._over = True
            parts.append(part)
            room -= len(part)
        if room <= 0:
            raise TooLarge(f"is a document of more than {LARGEST_DOCUMENT >> 20} MiB")
        return b"".join(parts)

    def _next(self) -> Line | Unreadable | None:
        if self._over:
            return None
        # The first line may be all there is.
        limit = LONGEST_LINE if self._number else LARGEST_DOCUMENT
        try:
            data = self.stream.readline(limit + 1)
            size = len(data)
            if size > limit and not data.endswith(b"\n"):
                data = b""
                while (part := self.stream.readline(_CHUNK)) and not part.endswith(b"\n"):
                    size += len(part)
        except self.broken as error:
            self._over = self.breaks_off = True
            return self._unreadable(f"is where the file breaks off: {error}", is_end=True)
        if not size:
            self._over = True
            return None
        if not data:
            return self._unreadable(f"is one line of more than {limit >> 20} MiB")
        self._number += 1
        return Line(self._number, data.removeprefix(_BOM) if self._number == 1 else data)

    def _unreadable(self, why: str, *, is_end: bool = False) -> Unreadable:
        self._number += 1
        return Unreadable(Place(self.name, self._number), why, is_end)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open a transcript; ``-`` is standard input. Raises ``CannotRead`` where that fails."""
    with ExitStack() as stack:
        if os.fspath(path) == STANDARD:
            name, raw = STANDARD, sys.stdin.buffer
        else:
            name = os.fspath(path)
            try:
                raw = stack.enter_context(Path(path).open("rb", _CHUNK))
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise CannotRead(f"{name} cannot be read: {reason}.") from error
        source = source_of(name, raw)
        if source.stream is not raw:
            stack.callback(source.stream.close)
        yield source


def source_of(name: str, raw: BinaryIO) -> Source:
    """The source of an open stream, unpacked where its first bytes say that it is packed.

    Raises ``CannotRead`` where that fails.
    """
    stream = raw if isinstance(raw, io.BufferedReader) else _Buffered(raw)
    try:
        magic = stream.peek(4)[:4]
    except OSError as error:
        raise CannotRead(f"{called(name)} cannot be read: {error.strerror or error}.") from error
    if magic.startswith(_GZIP):
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
        return Source(name, unpacked, (OSError, EOFError, zlib.error))
    if magic == zstd.MAGIC:
        return _zstandard(name, stream)
    return Source(name, cast(BinaryIO, stream))


class _Buffered(io.BufferedReader):
    """Any readable stream, with ``peek``."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(cast(io.RawIOBase, raw))


def _zstandard(name: str, stream: io.BufferedReader) -> Source:
    try:
        unpacked, broken = zstd.unpacked(stream)
    except ImportError as error:
        raise CannotRead(
            f"{called(name)} is packed with Zstandard, which this Python cannot unpack: "
            'pip install "kvagent[audit]", or unpack it first.'
        ) from error
    return Source(name, unpacked, (OSError, EOFError, broken))
