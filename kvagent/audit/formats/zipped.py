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

from kvagent.audit import zstd
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.names import called
from kvagent.audit.source import LARGEST_DOCUMENT
from kvagent.audit.transcript import CannotRead

MAGIC = b"PK\x03\x04"
_ZSTANDARD = 93
_HEADER = 30
# What a damaged archive makes Python's reader raise; a locked one, RuntimeError.
_ERRORS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError)


def parts(name: str, raw: bytes) -> Iterator[tuple[str, bytes | Broken]]:
    """The parts' names and bytes; of one that cannot be unpacked, why.

    Args:
        name: the archive's.
        raw: its bytes.

    Raises:
        Broken: it is none.
        CannotRead: what unpacks its parts is not installed.
    """
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
        except ImportError as error:
            raise CannotRead(
                f"{called(name)} has parts packed with Zstandard, which this Python cannot unpack: "
                'pip install "kvagent[audit]".'
            ) from error


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
    at = entry.header_offset
    lengths = [int.from_bytes(raw[at + part : at + part + 2], "little") for part in (26, 28)]
    start = at + _HEADER + sum(lengths)
    stream, broken = zstd.unpacked(io.BytesIO(raw[start : start + entry.compress_size]))
    try:
        return stream.read(LARGEST_DOCUMENT + 1)
    except broken as error:
        raise Broken(f"cannot be unpacked: {error}") from None
