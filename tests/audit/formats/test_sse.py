"""Are the events of a stream found in its text?"""

from __future__ import annotations

import pytest

from kvagent.audit.formats.sse import events, looks_like_it


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_events(end: str) -> None:
    lines = [
        "event: a",
        'data: {"a": 1}',
        "",
        ": comment",
        "",
        'data:{"b":',
        "data: 2}",
        "",
        "data: [DONE]",
    ]
    text = end.join([*lines, "", "data: {cut"])
    assert looks_like_it(text)
    assert events(text) == [{"a": 1}, {"b": 2}]


def test_other_text() -> None:
    assert not looks_like_it('{"data": 1}')
    assert events("hello") == []
