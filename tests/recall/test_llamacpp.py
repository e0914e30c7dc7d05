"""Does a real server have it all in its cache?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from kvagent.backends import Fetch
from kvagent.cli.connection import connect
from tests.recall.asking import TOOLS, asks, handle_in, history, recalling, reserialised
from tests.scripted import Served
from tests.tiny_model import SLIM, write
from tests.tokens.llamacpp import smollm2
from tests.wire import say


def test_a_real_server_has_it_all_in_its_cache(tmp_path: Path) -> None:
    """The first question is put in its mouth: so small a model calls no tool."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    from kvagent.cli.demo.server import CHAT_TEMPLATE, LlamaCpp

    model = write(tmp_path / "tiny.gguf", smollm2(), SLIM)
    scripted = recalling()
    counts: list[dict[str, Any]] = []
    with LlamaCpp(model, CHAT_TEMPLATE, n_ctx=16_384, threads=1, parse_tool_calls=False) as running:
        connection = connect(running.base_url)

        def server(body: dict[str, Any]) -> Served:
            answer = connection.fetch(Fetch("/chat/completions", "api", {**body, "max_tokens": 4}))
            assert answer.status == 200, answer.body
            reply = orjson.loads(answer.body)
            counts.append(reply["usage"])
            message = reply["choices"][0]["message"]
            if len(counts) == 1:
                message = asks(handle_in(body["messages"]), lines="1-90")
            return Served(message, reply["usage"])

        served = scripted.send(history(), server, tools=TOOLS)
        assert served.reply is not None
        more = [*history(), reserialised(served.reply), say("user", "And?")]
        scripted.send(more, server, tools=TOOLS)
    first, second, third = counts
    assert second["prompt_tokens"] > first["prompt_tokens"] + 1_000
    for before, after in ((first, second), (second, third)):
        cached = after["prompt_tokens_details"]["cached_tokens"]
        assert cached >= before["prompt_tokens"] - 8
    assert third["prompt_tokens"] - second["prompt_tokens"] < 60
