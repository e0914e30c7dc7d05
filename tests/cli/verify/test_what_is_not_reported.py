"""Which reply without a count of cached tokens says that none were, and which that none are told?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent.backends import Fetch, Fetched, Server
from kvagent.cli.verify.run import Request, Row, play
from kvagent.prefixcache import Hit

BODY = {"messages": [{"role": "user", "content": "Hello"}]}
REPLY = {"usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": None}}


class Told:
    """A cache that gives this many tokens."""

    leftovers = ""

    def __init__(self, cached: int) -> None:
        self._cached = cached

    def first(self) -> tuple[()]:
        return ()

    def apart(self, body: Any) -> Any:
        return body

    def expect(self, tokens: Any, body: Any) -> Hit:
        return Hit(len(tokens), self._cached, self._cached)


def row(version: str, cached: int) -> Row:
    server = Server("vllm", version=version, model="m")
    (flow,) = play(server, Told(cached), [Request(1, BODY, 9)])
    said = {"/tokenize": {"tokens": [1, 2, 3]}, "/chat/completions": REPLY}
    fetch: Fetch = next(flow)
    while True:
        answer = said.get(fetch.path)
        try:
            fetch = flow.send(Fetched(200 if answer else 404, json.dumps(answer).encode()))
        except StopIteration as stop:
            result: Row = stop.value
            return result


@pytest.mark.parametrize(
    ("version", "cached", "silent"),
    [("0.20.1", 0, False), ("0.20.1", 2, True), ("0.32.0", 0, True), ("0.32.0", 2, True)],
)
def test_no_count(version: str, cached: int, silent: bool) -> None:
    result = row(version, cached)
    assert result.silent is silent
    assert result.reported == (None if silent else 0)
    assert result.right is not silent
