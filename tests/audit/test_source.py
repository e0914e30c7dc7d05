"""Are the bytes of a transcript the same, wherever it lies and however it is packed?"""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit import source
from kvagent.audit.source import Line, TooLarge, opened, source_of
from kvagent.audit.transcript import CannotRead, Unreadable

TEXT = b'{"a": 1}\n\n{"b": "\xc3\xa9"}\r\n{"c": 3}'
LINES = [(1, b'{"a": 1}\n'), (2, b"\n"), (3, b'{"b": "\xc3\xa9"}\r\n'), (4, b'{"c": 3}')]


def packed(data: bytes, how: str) -> bytes:
    if how == "gzip":
        return gzip.compress(data)
    if how == "zstd":
        if sys.version_info >= (3, 14):
            from compression import zstd

            return zstd.compress(data)
        return bytes(pytest.importorskip("zstandard").compress(data))
    return data


@pytest.mark.parametrize("how", ["plain", "gzip", "zstd"])
def test_lines_and_document(tmp_path: Path, how: str) -> None:
    path = tmp_path / "named.txt"  # the name says nothing
    path.write_bytes(packed(TEXT, how))
    with opened(path) as found:
        assert list(found.lines()) == LINES
    with opened(path) as found:
        assert found.document() == TEXT


def test_several_members_follow_each_other(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"1\n") + gzip.compress(b"2\n"))
    with opened(path) as found:
        assert [line.data for line in found.lines() if isinstance(line, Line)] == [b"1\n", b"2\n"]


def test_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: object) -> int:
            raise OSError("a pipe")

    fake = type("Stdin", (), {"buffer": io.BufferedReader(Pipe(gzip.compress(TEXT)))})
    monkeypatch.setattr(sys, "stdin", fake)
    with opened("-") as found:
        assert found.name == "-"
        assert list(found.lines()) == LINES


@given(st.binary(max_size=300), st.integers(1, 10), st.integers(1, 50))
def test_what_is_read_ahead_is_given_again(data: bytes, lines: int, size: int) -> None:
    plain = list(source_of("x", io.BytesIO(b"#" + data)).lines())
    found = source_of("x", io.BytesIO(b"#" + data))
    ahead = found.ahead(lines, size)
    assert ahead == plain[: len(ahead)]
    assert found.at_end == (len(ahead) == len(plain))
    assert list(found.lines()) == plain
    found = source_of("x", io.BytesIO(b"#" + data))
    found.ahead(lines, size)
    assert found.document() == b"#" + data


def test_a_mark_of_byte_order_is_no_text() -> None:
    assert list(source_of("x", io.BytesIO(b"\xef\xbb\xbf{}\n{}")).lines()) == [
        (1, b"{}\n"),
        (2, b"{}"),
    ]


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_without_an_end_is_passed_over(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    monkeypatch.setattr(source, "LONGEST_LINE", 100)
    monkeypatch.setattr(source, "_CHUNK", 30)
    data = b"1\n" + b"x" * 1000 + b"\n" + b"y" * 100 + b"\n" + b"3" + end
    found = list(source_of("x", io.BytesIO(data)).lines())
    assert isinstance(found[1], Unreadable)
    assert found[1].place.line == 2
    assert [line.number for line in found if isinstance(line, Line)] == [1, 3, 4]


def test_a_document_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGEST_DOCUMENT", 100)
    assert source_of("x", io.BytesIO(b"x" * 100)).document() == b"x" * 100
    with pytest.raises(TooLarge):
        source_of("x", io.BytesIO(b"x" * 101)).document()
    found = source_of("x", io.BytesIO(b"x" * 101))
    assert found.ahead(1, 1) == []
    with pytest.raises(TooLarge):
        found.document()


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_a_damaged_file_breaks_off(how: str) -> None:
    lines = [b"%d\n" % number for number in range(100_000)]
    whole = packed(b"".join(lines), how)
    half = source_of("x", io.BytesIO(whole[: len(whole) // 2]))
    found = list(half.lines())
    assert isinstance(found[-1], Unreadable)
    assert "breaks off" in found[-1].why
    assert [line.data for line in found if isinstance(line, Line)] == lines[: len(found) - 1]
    assert (half.breaks_off, found[-1].is_end) == (True, True)


@pytest.mark.parametrize("how", ["gzip", "zstd"])
@given(
    texts=st.lists(st.binary(max_size=300).map(lambda text: text + b"\n"), min_size=1, max_size=4),
    cut=st.integers(0, 100),
)
def test_wherever_it_breaks_off_that_is_seen(how: str, texts: list[bytes], cut: int) -> None:
    """Each text is a frame of its own; it breaks off within the last one, or does not."""
    *whole, last = [packed(text, how) for text in texts]
    part = last[: max(1, len(last) - cut)]
    data = b"".join([*whole, part])
    if not whole and len(part) < 4:
        return  # so short a file is not known to be packed
    source = source_of("x", io.BytesIO(data))
    *_, end = source.lines()
    assert isinstance(end, Unreadable) == source.breaks_off == bool(cut)
    source = source_of("x", io.BytesIO(data))
    source.ahead(1, 1)
    document = source.document()
    assert b"".join(texts).removeprefix(b"\xef\xbb\xbf").startswith(document)
    assert source.breaks_off == bool(cut)


def test_no_more_is_unpacked_than_is_read() -> None:
    whole = packed(bytes(1 << 28), "zstd")
    stream = io.BufferedReader(io.BytesIO(whole), 1)
    source_of("x", stream).stream.read(1)
    assert 0 < stream.tell() < len(whole) / 2


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_cannot_be_opened(tmp_path: Path, name: str) -> None:
    with pytest.raises(CannotRead, match="cannot be read"), opened(tmp_path / name):
        pass


def test_zstandard_where_python_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("Python has it")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    for name, called in (("log.zst", "log.zst"), ("-", "standard input")):
        with pytest.raises(CannotRead) as caught:
            source_of(name, io.BytesIO(b"\x28\xb5\x2f\xfd rest"))
        assert str(caught.value) == (
            f"{called} is packed with Zstandard, which this Python cannot unpack: "
            'pip install "kvagent[audit]", or unpack it first.'
        )
