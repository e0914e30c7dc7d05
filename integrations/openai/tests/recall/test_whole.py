"""Does a caller get one whole reply as ever, where the model asked something in between?"""

from __future__ import annotations

from typing import Any

import openai
import pytest

from kvagent import Engine
from kvagent.events import Bypassed, Event, PrefixBroken
from kvagent.recall import TOOL
from kvagent_openai import wrap

# Tests are no package, so there is no absolute name for this.
from ..conftest import Make, done, listed  # noqa: TID252
from ..null_server import CUT, Answer, NullServer, Seen  # noqa: TID252
from .asking import FINAL, HISTORY, LONG, TOOLS, Model, create, joined


def told(seen: Seen) -> list[str]:
    return [m["content"] for m in seen.messages if str(m.get("tool_call_id")).startswith("ask-")]


async def test_the_caller_has_the_last_reply(
    kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    server.respond = Model(2)
    reply = await create(wrap(make(kind), engine=engine))
    assert reply.choices[0].message.content == FINAL["content"]
    assert reply.choices[0].finish_reason == "stop"
    assert [len(seen.messages) for seen in server.chats] == [3, 5, 7]
    assert [seen.json["tools"][-1] for seen in server.chats] == [TOOL] * 3
    assert told(server.chats[-1]) == [line + "\n" for line in LONG.split("\n")[:2]]


async def test_the_next_turn_begins_with_the_prompt_of_this_one(
    plain_kind: str, make: Make, server: NullServer, engine: Engine, happened: list[Event]
) -> None:
    server.respond = Model(1)
    client = wrap(make(plain_kind), engine=engine)
    for stream in (False, True):
        server.seen.clear()
        server.respond = Model(1)
        first = await create(client, stream=stream)
        if stream:
            message = {"role": "assistant", "content": joined(await listed(first))["content"]}
        else:
            message = first.choices[0].message.model_dump()
        await create(client, [*HISTORY, message, {"role": "user", "content": "And?"}])
        before, after = server.chats[-2].messages, server.chats[-1].messages
        assert after[: len(before)] == before
        assert after[len(before)]["content"] == FINAL["content"]
    assert not [event for event in happened if isinstance(event, PrefixBroken | Bypassed)]


async def test_raw_and_streamed_responses_of_a_whole_reply(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    client = wrap(make(plain_kind), engine=engine)
    options: dict[str, Any] = {"model": "m", "messages": HISTORY, "tools": TOOLS}
    server.respond = Model(1)
    raw = await done(client.chat.completions.with_raw_response.create(**options))
    assert raw.parse().choices[0].message.content == FINAL["content"]
    server.respond = Model(1)
    manager = client.chat.completions.with_streaming_response.create(**options)
    if hasattr(manager, "__aenter__"):
        async with manager as response:
            body = await response.json()
    else:
        with manager as response:
            body = response.json()
    assert body["choices"][0]["message"]["content"] == FINAL["content"]


async def test_an_error_of_the_further_request_is_the_callers(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    error = Answer(b'{"error": {"message": "overheated"}}', status=418)
    server.respond = Model(1, final=error)
    with pytest.raises(openai.APIStatusError, match="overheated"):
        await create(wrap(make(plain_kind), engine=engine))


async def test_a_connection_cut_off_is_retried_by_the_sdk(
    plain_kind: str,
    make: Make,
    server: NullServer,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    cut = [Answer([b'{"choices": [', CUT])]
    server.respond = Model(1, final=lambda seen: cut.pop() if cut else FINAL)
    reply = await create(wrap(make(plain_kind, max_retries=1), engine=engine))
    assert reply.choices[0].message.content == FINAL["content"]
