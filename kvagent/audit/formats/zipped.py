"""What is in an archive in which a log keeps its parts?

A ZIP file of which the parts may be packed with Zstandard, which Python's own reader knows from 3.14
on. A part is unpacked up to the bound for a document.
"""

from __future__ import annotations

import io
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from kvagent.audit.formats.json_text import Broken
from kvagent.audit.source import LARGEST_DOCUMENT

MAGIC = b"PK\x03\x04"
_ZSTANDARD = 93
_HEADER = 30
# What a damaged archive makes Python's reader raise; a locked one, RuntimeError.
_ERRORS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError)


def parts(raw: bytes) -> Iterator[tuple[str, bytes | Broken]]:
    """The parts' names and bytes; of one that cannot be unpacked, why. Raises ``Broken``."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(raw))
        entries = archive.infolist()
    except _ERRORS as error:
        raise Broken(f"is no ZIP archive: {error}") from None
    for entry in entries:
        try:
            yield entry.filename, _unpacked(raw, archive, entry)
        except Broken as error:
            yield entry.filename, error


def _unpacked(raw: bytes, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    try:
        if entry.compress_type == _ZSTANDARD and sys.version_info < (3, 14):
            data = _zstandard(raw, entry)
        else:
            with archive.open(entry) as part:
                data = part.read(LARGEST_DOCUMENT + 1)
    except _ERRORS as error:
        raise Broken(f"cannot be unpacked: {error}") from None
    if len(data) > LARGEST_DOCUMENT:
        raise Broken(f"has more than {LARGEST_DOCUMENT >> 20} MiB")
    return data


def _zstandard(raw: bytes, entry: zipfile.ZipInfo) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise Broken("is packed with Zstandard: install the package zstandard") from None
    at = entry.header_offset
    lengths = [int.from_bytes(raw[at + part : at + part + 2], "little") for part in (26, 28)]
    start = at + _HEADER + sum(lengths)
    packed: Any = io.BytesIO(raw[start : start + entry.compress_size])
    try:
        reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        return bytes(io.BufferedReader(reader).read(LARGEST_DOCUMENT + 1))
    except zstandard.ZstdError as error:
        raise Broken(f"cannot be unpacked: {error}") from None
