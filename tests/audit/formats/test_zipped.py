"""Are the parts of an archive unpacked, and is a damaged one no more than that?"""

from __future__ import annotations

import io
import random
import struct
import sys
import zipfile

import pytest

from kvagent.audit.formats import zipped
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.formats.zipped import parts
from kvagent.audit.transcript import CannotRead

PARTS = {"header.json": b"{}", "samples/1.json": b'{"a": 1}' * 100}


def archive(how: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as target:
        for name, data in PARTS.items():
            target.writestr(name, data)
    return made.getvalue()


def zstandard() -> bytes:
    """What Python before 3.14 cannot write: the same, packed with Zstandard."""
    packer = pytest.importorskip("zstandard")
    made = io.BytesIO()
    entries = []
    for name, data in PARTS.items():
        packed = packer.compress(data)
        crc, at = zipfile.crc32(data), made.tell()  # type: ignore[attr-defined]
        sizes = (crc, len(packed), len(data), len(name))
        made.write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 63, 0, 93, 0, 0, *sizes, 0))
        made.write(name.encode() + packed)
        entries.append((name, sizes, at))
    start = made.tell()
    for name, sizes, at in entries:
        head = (b"PK\1\2", 63, 63, 0, 93, 0, 0, *sizes, 0, 0, 0, 0, 0, at)
        made.write(struct.pack("<4sHHHHHHIIIHHHHHII", *head) + name.encode())
    size = made.tell() - start
    count = len(entries)
    made.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, size, start, 0))
    return made.getvalue()


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, None])
def test_parts(how: int | None) -> None:
    assert dict(parts("log.eval", zstandard() if how is None else archive(how))) == PARTS


def test_what_has_no_end_when_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipped, "LARGEST_DOCUMENT", 100)
    for raw in (archive(), zstandard()):
        header, sample = (data for _, data in parts("log.eval", raw))
        assert header == b"{}"
        assert isinstance(sample, Broken)


@pytest.mark.parametrize("made", [archive, zstandard])
def test_damaged(made: object) -> None:
    raw = made()  # type: ignore[operator]
    rng = random.Random(0)
    for _ in range(300):
        data = bytearray(raw)
        for _ in range(rng.choice((1, 3, 20))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            end = rng.choice((len(data), rng.randrange(len(data))))
            for _, part in parts("log.eval", bytes(data[:end])):
                assert isinstance(part, bytes | Broken)
        except Broken as error:
            last = str(error)
    assert last


def test_parts_that_nothing_here_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("Python has it")
    raw = zstandard()
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(
        CannotRead, match=r"^log\.eval has parts .*pip install \"kvagent\[audit\]\"\.$"
    ):
        list(parts("log.eval", raw))
