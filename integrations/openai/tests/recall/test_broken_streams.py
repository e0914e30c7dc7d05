"""What is told and kept of a stream that fails, breaks off or is given up?"""

from __future__ import annotations

from threading import Event as Signal

import openai
import pytest

from kvagent import Engine
from kvagent.events import Bypassed, Event, TurnFinished
from kvagent.recall import RECALL
from kvagent_openai import wrap

# Tests are no package, so there is no absolute name for this.
from ..conftest import Make, done, listed  # noqa: TID252
from ..null_server import CUT, Answer, NullServer, Seen, completion, events, sse  # noqa: TID252
from .asking import FINAL, HISTORY, Model, calling, create, handle_in


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Answer(b'{"error": {"message": "overheated"}}', status=500), "overheated"),
        (Answer(b'{\n "error": {\n "message": "overheated"}}', status=400), "overheated"),
        (Answer(b'{"detail": "overheated"}', status=422), "overheated"),
        (Answer(b"<html>Bad Gateway</html>", 502, "text/html"), "Bad Gateway"),
        (Answer(b"", 503), "503"),
    ],
)
async def test_a_further_request_that_fails_is_an_error_in_the_stream(
    error: Answer,
    says: str,
    plain_kind: str,
    make: Make,
    server: NullServer,
    engine: Engine,
    happened: list[Event],
) -> None:
    server.respond = Model(1, final=error, text="Let me look. ")
    stream = await create(wrap(make(plain_kind), engine=engine), stream=True)
    with pytest.raises(openai.APIError) as caught:
        await listed(stream)
    assert says in f"{caught.value.message} {caught.value.body}"
    await done(stream.close())
    assert [event.turn for event in happened if isinstance(event, TurnFinished)] == [1]


async def test_a_further_request_that_is_cut_off_raises(
    plain_kind: str, make: Make, server: NullServer, engine: Engine, happened: list[Event]
) -> None:
    server.respond = Model(1, final=sse([*events(FINAL)[:3], CUT]), text="Let me look. ")
    client = wrap(make(plain_kind), engine=engine)
    stream = await create(client, stream=True)
    with pytest.raises(Exception, match=r"\w"):  # the SDK's versions differ in which
        await listed(stream)
    server.respond = Model(1)
    await listed(await create(client, stream=True))
    message = {"role": "assistant", **FINAL}
    await create(client, [*HISTORY, message, {"role": "user", "content": "And?"}])
    before, after = server.chats[-2].messages, server.chats[-1].messages
    assert after[: len(before)] == before
    assert not [event for event in happened if isinstance(event, Bypassed)]


@pytest.mark.parametrize("when", ["at once", "before the question", "in the answer"])
async def test_a_stream_given_up_keeps_nothing_of_it(
    when: str, plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    never = Signal()

    def respond(seen: Seen) -> Answer:
        if len(seen.messages) > 3:
            return sse([*events(FINAL)[:4], never])
        reply = calling(RECALL, {"handle": handle_in(seen), "lines": "1"}, "ask-1", "Let me look.")
        chunks = events(reply)
        at = next(n for n, chunk in enumerate(chunks) if b"tool_calls" in chunk)
        wait = [never] if when == "before the question" else []
        return sse([*chunks[:at], *wait, *chunks[at:]])

    server.respond = respond
    client = wrap(make(plain_kind, timeout=5), engine=engine)
    stream = await create(client, stream=True)
    wanted = {"at once": "", "before the question": "Let", "in the answer": "Let me look.Job"}[when]
    text = ""
    while text != wanted:
        chunk = await anext(stream) if hasattr(stream, "__anext__") else next(stream)
        text += chunk.choices[0].delta.content or ""
    await done(stream.close())
    never.set()
    assert len(server.chats) == (2 if when == "in the answer" else 1)
    tree = engine.ledger.tree("", "m")
    assert not tree.answered
    server.respond = lambda seen: completion(FINAL)
    await create(client)
    assert server.chats[-1].messages == server.chats[0].messages
