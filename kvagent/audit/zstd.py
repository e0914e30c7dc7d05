"""How is a stream unpacked that is packed with Zstandard?

Python can from 3.14 on; before, the package ``zstandard`` can. Where the stream breaks off, reading
it ends with ``EOFError``, as with gzip.
"""

from __future__ import annotations

import io
import sys
from typing import Any, BinaryIO, cast

MAGIC = b"\x28\xb5\x2f\xfd"

# Four packed bytes may be 128 KiB unpacked, which are made at once: 64 MiB of this many.
_PACKED = 1 << 11
_CHUNK = 1 << 20


def unpacked(packed: BinaryIO) -> tuple[BinaryIO, type[Exception]]:
    """What a stream unpacks to, and what reading that raises where it is damaged.

    Raises ``ImportError`` where this Python lacks what unpacks it.
    """
    if sys.version_info >= (3, 14):
        from compression import zstd

        return cast(BinaryIO, zstd.ZstdFile(packed)), zstd.ZstdError
    import zstandard

    frames = _Frames(packed, zstandard.ZstdDecompressor())
    return cast(BinaryIO, io.BufferedReader(frames, _CHUNK)), zstandard.ZstdError


class _Frames(io.RawIOBase):
    """What all frames of a stream unpack to.

    The package's own reader takes a frame that breaks off for one that is over.
    """

    def __init__(self, packed: BinaryIO, unpacker: Any) -> None:
        self._packed = packed
        self._unpacker = unpacker
        self._frame: Any = None
        """Unpacks the frame that was begun; None between two."""
        self._following = b""
        """What was read beyond a frame's end."""
        self._ready = memoryview(b"")
        """What was unpacked and not given yet."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._ready:
            part = self._following or self._packed.read(_PACKED)
            self._following = b""
            if not part:
                if self._frame is not None:
                    raise EOFError(
                        "Compressed file ended before the end-of-stream marker was reached"
                    )
                return 0
            if self._frame is None:
                self._frame = self._unpacker.decompressobj()
            self._ready = memoryview(self._frame.decompress(part))
            if self._frame.eof:
                self._following, self._frame = self._frame.unused_data, None
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size
