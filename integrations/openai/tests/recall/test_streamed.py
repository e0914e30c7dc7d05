"""Does a caller get one stream as ever, where the model asked something in between?"""

from __future__ import annotations

from threading import Event as Signal
from typing import Any

import pytest

from kvagent import Engine
from kvagent.recall import RECALL
from kvagent_openai import wrap

# Tests are no package, so there is no absolute name for this.
from ..conftest import Make, listed  # noqa: TID252
from ..null_server import Answer, NullServer, Seen, events, sse  # noqa: TID252
from .asking import FINAL, HISTORY, TOOLS, Model, calling, create, handle_in, joined


@pytest.mark.parametrize("text", ["", "Let me look. "])
async def test_a_stream_goes_on_with_the_last_reply(
    text: str, kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    server.respond = Model(2, text=text)
    stream = await create(wrap(make(kind), engine=engine), stream=True)
    assert joined(await listed(stream)) == {"content": 2 * text + FINAL["content"], "calls": []}
    assert [len(seen.messages) for seen in server.chats] == [3, 5, 7]


async def test_text_is_passed_on_before_the_question_is_known(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    asked = Signal()

    def respond(seen: Seen) -> Answer:
        if len(seen.messages) > 3:
            return sse(events(FINAL))
        reply = calling(RECALL, {"handle": handle_in(seen), "lines": "1"}, "ask-1", "Let me look.")
        chunks = events(reply)
        at = next(n for n, chunk in enumerate(chunks) if b"tool_calls" in chunk)
        return sse([*chunks[:at], asked, *chunks[at:]])

    server.respond = respond
    stream = await create(wrap(make(plain_kind, timeout=5), engine=engine), stream=True)
    text = ""
    while text != "Let me look.":
        chunk = await anext(stream) if hasattr(stream, "__anext__") else next(stream)
        text += chunk.choices[0].delta.content or ""
    asked.set()
    assert joined(await listed(stream))["content"] == FINAL["content"]


async def test_the_streamed_reply_ends_as_any(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    """One reason to finish, one count, and nothing of the questions."""
    server.respond = Model(2)
    client = wrap(make(plain_kind), engine=engine)
    stream = await create(client, stream=True, stream_options={"include_usage": True})
    chunks = await listed(stream)
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert [reason for reason in reasons if reason] == ["stop"]
    assert [chunk.usage.prompt_tokens for chunk in chunks if chunk.usage] == [102]
    assert RECALL not in repr(chunks)


async def test_the_sdks_own_stream_helper(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    server.respond = Model(1, text="Let me look. ")
    client = wrap(make(plain_kind), engine=engine)
    strict: list[Any] = [{**TOOLS[0], "function": {**TOOLS[0]["function"], "strict": True}}]
    manager = client.chat.completions.stream(model="m", messages=HISTORY, tools=strict)
    if hasattr(manager, "__aenter__"):
        async with manager as opened:
            reply = await opened.get_final_completion()
    else:
        with manager as opened:
            reply = opened.get_final_completion()
    assert reply.choices[0].message.content == "Let me look. " + FINAL["content"]


async def test_connections_are_given_back(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    used = []
    for times, client in ((0, make(plain_kind)), (2, wrap(make(plain_kind), engine=engine))):
        server.connections = 0
        for _ in range(3):
            server.respond = Model(times)
            await listed(await create(client, stream=True))
            server.respond = Model(times)
            await create(client)
        used.append(server.connections)
    assert used[0] == used[1]
