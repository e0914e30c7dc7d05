"""Is a file seen as one value, or as one a line, and is nothing lost by looking?"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from kvagent.audit.formats.contents import Contents
from kvagent.audit.source import source_of
from kvagent.audit.transcript import Unreadable

RECORDS = [{"a": 1}, {"b": [1, 2]}, {"c": {"d": None}}]


def contents(data: bytes) -> Contents:
    return Contents.of(source_of("x", io.BytesIO(data)))


def lines(*values: Any) -> bytes:
    return b"\n".join(json.dumps(value).encode() for value in values)


def read(found: Contents) -> list[Any]:
    return [each if isinstance(each, Unreadable) else each[1] for each in found.records()]


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("value", [RECORDS, {"all": RECORDS}, [], {}, [[{}], [{}]]])
def test_a_document_over_any_number_of_lines(value: Any, indent: int | None) -> None:
    found = contents(json.dumps(value, indent=indent).encode())
    assert found.alone
    assert found.value == value
    assert read(found) == [value]


def test_a_list_with_an_item_a_line_is_a_document() -> None:
    data = b"[\n" + b",\n".join(json.dumps(each).encode() for each in RECORDS) + b"\n]\n"
    assert read(contents(data)) == [RECORDS]


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n \r\n"])
def test_a_value_a_line(end: bytes) -> None:
    found = contents(lines(*RECORDS) + end)
    assert not found.document
    assert not found.alone
    assert found.values == RECORDS
    assert read(found) == RECORDS


def test_lines_that_cannot_be_read_are_told_with_their_number() -> None:
    data = lines(*RECORDS) + b"\n{cut\n\n7\n" + lines({"e": 5})
    found = list(contents(data).objects())
    assert [each.place.line for each in found if isinstance(each, Unreadable)] == [4, 6]
    assert [each[0].line for each in found if not isinstance(each, Unreadable)] == [1, 2, 3, 7]


def test_more_lines_than_are_looked_at() -> None:
    values = [{"n": n} for n in range(1000)]
    found = contents(lines(*values))
    assert len(found.values) == 100
    assert read(found) == values


def test_a_log_that_begins_in_the_middle_of_a_line() -> None:
    found = contents(b'rest of it"}\n' + lines(*RECORDS))
    assert found.values == RECORDS
    assert [isinstance(each, Unreadable) for each in read(found)] == [True, False, False, False]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"hello\nworld", b'{"a": [1,', b"a: 1\nb: 2"])
def test_what_is_not_json(data: bytes) -> None:
    found = contents(data)
    assert found.values == []
    assert found.raw == data
    (each,) = found.records()
    assert isinstance(each, Unreadable)
