"""Is a request written anew without touching what was not changed?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent.chat import Doubt
from tests.chat.rewriting import MESSAGES, TOOLS, rewritten
from tests.wire import compact


@pytest.mark.parametrize(
    "body",
    [
        {"messages": MESSAGES, "model": "m", "stream": True},
        {"model": "m", "messages": MESSAGES, "tools": TOOLS, "tool_choice": "auto"},
        {"tools": TOOLS, "messages": MESSAGES, "metadata": {"a": [1, 2.50, "\u2028", None]}},
        {
            "messages": MESSAGES,
            "stop": ['"messages":[', '"tools":[]'],
            "logit_bias": {"50256": -100},
        },
    ],
)
def test_of_a_compact_body_only_the_messages_change(body: Any) -> None:
    raw = compact(body).encode()
    assert rewritten(raw) == raw.replace("Zürich".encode(), b"NEW")


def test_tools_are_replaced_where_they_stand() -> None:
    raw = compact({"tools": TOOLS, "messages": MESSAGES, "n": 2}).encode()
    expected = compact({"tools": TOOLS[::-1], "messages": MESSAGES, "n": 2}).encode()
    assert rewritten(raw, TOOLS[::-1]) == expected.replace("Zürich".encode(), b"NEW")


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"messages": MESSAGES, "temperature": 0.10, "top_p": 1.0, "x": "é"}).encode(),
        json.dumps({"x": {"b": 1, "a": [None]}, "messages": MESSAGES}, indent=2).encode(),
        b'{"messages": [{"role": "user", "content": "Z"}], "seed": 123456789012345678901234567890}',
        b'{"seed":1,"messages":[{"role":"user","content":"a","content":"Z"}],"seed":2}',
        b'{"a":{"messages":[{"role":"user","content":"Z"}]},"messages":[{"role":"user","content":"Z"}]}',
        b'{"messages":[{"role":"user","content":"old"}],"messages":[{"role":"user","content":"Z"}]}',
    ],
    ids=["spaced", "indented", "big int", "twice a key", "same key inside", "twice messages"],
)
def test_other_bodies_are_written_anew_without_loss(raw: bytes) -> None:
    before, after = json.loads(raw), json.loads(rewritten(raw))
    assert after.pop("messages")[-1] == {"role": "user", "content": "NEW"}
    before.pop("messages")
    assert repr(after) == repr(before)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages": [{"role":"user","content":"x","n":18446744073709551616}]}',
        b'{"messages": [{"role":"user","content":"x"}], "logit_bias": {"1": 1e400}}',
        b'{"messages": [{"role":"user","content":"x"}], "stop": NaN}',
    ],
)
def test_numbers_that_would_not_survive_are_doubted(raw: bytes) -> None:
    with pytest.raises(Doubt):
        rewritten(raw)
