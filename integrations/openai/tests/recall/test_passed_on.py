"""Is what is no question passed on as it came, however a stream is cut?"""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent import Engine
from kvagent_openai import wrap
from kvagent_openai.sieve import Sieve

# Tests are no package, so there is no absolute name for this.
from ..conftest import Make, listed  # noqa: TID252
from ..null_server import NullServer, events, sse  # noqa: TID252
from .asking import HISTORY, TOOLS, calling, create, joined


@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("chunking", ["events", "at once", "byte by byte"])
async def test_an_ordinary_call_comes_whole_and_in_order(
    chunking: str, crlf: bool, plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    reply = calling("run", {"command": "ls -l"}, "call-2", "I will run it.")
    reply["tool_calls"] += calling("run", {"command": "pwd"}, "call-3")["tool_calls"]
    chunks = [chunk.replace(b"\n", b"\r\n") if crlf else chunk for chunk in events(reply)]
    whole = b"".join(chunks)
    if chunking != "events":
        chunks = [whole] if chunking == "at once" else [bytes([byte]) for byte in whole]
    server.respond = lambda seen: sse(chunks)
    client = wrap(make(plain_kind), engine=engine)
    manager = client.chat.completions.with_streaming_response.create(
        model="m", messages=HISTORY, tools=TOOLS, stream=True
    )
    if hasattr(manager, "__aenter__"):
        async with manager as response:
            had = [chunk async for chunk in response.http_response.aiter_raw()]
    else:
        with manager as response:
            had = list(response.http_response.iter_raw())
    assert b"".join(had) == whole
    assert len(server.chats) == 1


@pytest.mark.parametrize(
    "content",
    ['He said "tool_calls" to me.', '{"tool_calls": [1]}', "data: tool_calls\n\ndata: x"],
)
async def test_text_that_looks_like_a_call_is_passed_on(
    content: str, plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    server.respond = lambda seen: sse(events({"content": content}))
    stream = await create(wrap(make(plain_kind), engine=engine), stream=True)
    assert joined(await listed(stream))["content"] == content


def cut(whole: bytes, places: set[int]) -> list[bytes]:
    ends = sorted(places | {len(whole)})
    return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(
    st.lists(st.sampled_from(["text", "call", "odd"]), max_size=6),
    st.sets(st.integers(0, 2_000), max_size=40),
    st.sampled_from([b"\n\n", b"\r\n\r\n"]),
)
def test_however_a_stream_is_cut_nothing_is_lost_and_no_call_passes(
    kinds: list[str], places: set[int], end: bytes
) -> None:
    delta = {
        "text": {"content": "Grüße: tool_calls, \n\n and all"},
        "call": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]},
        "odd": {"content": "x", "tool_calls": []},
    }
    parts = [b"data: " + orjson.dumps({"choices": [{"delta": delta[kind]}]}) for kind in kinds]
    stream = [part + end for part in parts] + [b"data: [DONE]" + end]
    whole = b"".join(stream)
    sieve = Sieve()
    chunks = cut(whole, {place for place in places if place < len(whole)})
    passed = b"".join(map(sieve.passed, chunks))
    first = kinds.index("call") if "call" in kinds else len(stream)
    assert passed == b"".join(stream[:first])
    assert passed + sieve.held() == whole
    assert sieve.held() == b""
