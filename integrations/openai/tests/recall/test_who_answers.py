"""Which questions does kvagent leave to the caller to answer?"""

from __future__ import annotations

import gzip
import json
from threading import Event as Signal
from typing import Any

import openai
import pytest

from kvagent import Engine, Policy, Recall
from kvagent.events import Event, TurnFinished
from kvagent.recall import RECALL, TOOL
from kvagent_openai import wrap

# Tests are no package, so there is no absolute name for this.
from ..conftest import Make, listed  # noqa: TID252
from ..null_server import Answer, NullServer, Seen, events, sse  # noqa: TID252
from .asking import LONG, TOOLS, Model, calling, create, handle_in, joined


async def test_an_encoded_stream_cannot_be_answered_and_is_the_callers(
    plain_kind: str, make: Make, server: NullServer, engine: Engine, happened: list[Event]
) -> None:
    """The question reaches the agent, and the turn is kept as any other."""

    def respond(seen: Seen) -> Answer:
        reply = calling(RECALL, {"handle": handle_in(seen), "lines": "1"}, "ask-1")
        body = gzip.compress(b"".join(events(reply)))
        return sse([body], **{"content-encoding": "gzip"})

    server.respond = respond
    stream = await create(wrap(make(plain_kind), engine=engine), stream=True)
    (asked,) = joined(await listed(stream))["calls"]
    assert asked["name"] == RECALL
    assert len(server.chats) == 1
    assert [event.turn for event in happened if isinstance(event, TurnFinished)] == [1]


async def test_an_error_inside_kvagent_leaves_the_question_to_the_caller(
    plain_kind: str,
    make: Make,
    server: NullServer,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr("kvagent.form.Form.with_more", fail)
    client = wrap(make(plain_kind), engine=engine)
    server.respond = Model(1)
    (asked,) = joined(await listed(await create(client, stream=True)))["calls"]
    assert asked["name"] == RECALL
    server.respond = Model(1)
    reply = await create(client)
    assert reply.choices[0].message.tool_calls[0].function.name == RECALL


async def test_the_agent_answers_where_the_policy_says_so(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    engine = Engine(Policy(probe=False, recall=Recall(answer="agent")))
    client = wrap(make(plain_kind), engine=engine)
    server.respond = Model(9)
    (asked,) = joined(await listed(await create(client, stream=True)))["calls"]
    assert asked["name"] == RECALL
    assert json.loads(asked["arguments"])["lines"] == "1"
    text = engine.recall(**json.loads(asked["arguments"]))
    assert text == LONG.split("\n")[0] + "\n"


@pytest.mark.parametrize("tools", [None, [*TOOLS, TOOL]])
async def test_calls_are_held_back_only_where_the_tool_is_kvagents(
    tools: Any, plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    """Without tools, or with an agent's own tool of that name, a stream passes as it comes."""
    held = Signal()
    chunks = events(calling(RECALL, {"handle": "r0123456789ab"}, "ask-1"))
    at = next(n for n, chunk in enumerate(chunks) if b"tool_calls" in chunk) + 1
    server.respond = lambda seen: sse([*chunks[:at], held, *chunks[at:]])
    options = {"tools": tools} if tools else {"tools": openai.NOT_GIVEN}
    stream = await create(wrap(make(plain_kind, timeout=5), engine=engine), stream=True, **options)
    called = ""
    while not called:
        chunk = await anext(stream) if hasattr(stream, "__anext__") else next(stream)
        parts = chunk.choices[0].delta.tool_calls or []
        called = "".join(part.function.name or "" for part in parts)
    held.set()
    await listed(stream)
    assert called == RECALL
    assert len(server.chats) == 1
