"""Is a request found in its line, and is all around it left alone?"""

from __future__ import annotations

import json

import pytest

from kvagent.cli.recorded import Broken, Recorded

BODY = b'{"messages":[{"role":"user","content":"hi"}]}'


def read(line: bytes) -> Recorded:
    recorded = Recorded.read(line)
    assert recorded is not None
    assert recorded.before + recorded.body + recorded.after == line
    assert recorded.with_body(b"{}") == recorded.before + b"{}" + recorded.after
    return recorded


@pytest.mark.parametrize("line", [b"", b"\n", b"\r\n", b" \t\n", b"\xef\xbb\xbf\n"])
def test_a_blank_line_is_no_request(line: bytes) -> None:
    assert Recorded.read(line) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b""), (b"", b"\n"), (b"  ", b" \r\n"), (b"\xef\xbb\xbf", b"\n")],
)
def test_a_bare_body(before: bytes, after: bytes) -> None:
    assert read(before + BODY + after) == Recorded(before, BODY, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"body":', b"}\n"),
        (b'{"request":', b',"response":{"choices":[]}}\n'),
        (b'{ "at" : 1.50 , "body" : ', b' , "path" : "/v1" }\r\n'),
        (b'{"note":"\\"body\\":{}, caf\xc3\xa9 \xf0\x9f\x8d\xb5 }","body":', b',"x":[{"body":1}]}'),
        (b'{"body":{"of":"another"},"b\\u006fdy":', b"}"),  # the last of two keys counts
        (b'{"id":' + b"9" * 5000 + b',"body":', b"}"),  # more digits than Python reads
    ],
)
def test_a_wrapped_body(before: bytes, after: bytes) -> None:
    assert read(before + BODY + after) == Recorded(before, BODY, after)


def test_a_request_with_a_key_body_of_its_own_is_the_request() -> None:
    line = b'{"body":{"messages":[]},"messages":[{"role":"user"}]}'
    assert read(line).body == line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "is not JSON: Expecting value at character 1"),
        (b'{"messages":[', "is not JSON: Expecting value at character 14"),
        (b'{"messages":[NaN]}', "is not JSON: it holds NaN"),
        (BODY + BODY, f"is not JSON: Extra data at character {len(BODY) + 1}"),
        (b'{"messages":["\xff"]}', "is not UTF-8: byte 0xff at 15"),
        (b"\xff\xfe{\x00", "is not UTF-8: byte 0xff at 1"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[1]", "is a list, not an object"),
        (b"12", "is a number, not an object"),
        (b'"text"', "is a text, not an object"),
        (b"null", "is null, not an object"),
        (b"true", "is true, not an object"),
        (b'{"body":"{}"}', 'has a text as "body", not an object'),
        (b'{"request":[]}', 'has a list as "request", not an object'),
        (b'{"prompt":"hi"}', 'is not a chat request: it has no list of "messages"'),
        (b'{"messages":[]}', 'is not a chat request: it has no list of "messages"'),
        (b'{"messages":{}}', 'is not a chat request: it has no list of "messages"'),
        (b'{"body":{"input":[]}}', 'is not a chat request: it has no list of "messages"'),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: bytes, reason: str) -> None:
    with pytest.raises(Broken) as caught:
        Recorded.read(line)
    assert str(caught.value) == reason


def test_what_only_a_model_reads_is_never_looked_at() -> None:
    """Lone surrogates and numbers out of range are JSON; whether they can be rewritten is not asked here."""
    body = json.dumps({"messages": [{"content": "\ud800"}], "n": 10**400}).encode()
    assert read(body + b"\n").body == body
