"""Does a caller hear of it when the prompt is too long for the server?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import kvagent
from kvagent import Edited, Engine, Overflowed, Policy, Recall
from kvagent.events import Event, TurnFinished
from kvagent_openai import wrap

from .conftest import UNPROBED, Make, done, listed
from .null_server import Answer, NullServer, Seen, completion, events, sse

WORDINGS = {
    "llama.cpp": "request (9000 tokens) exceeds the available context size (4096 tokens), try "
    "increasing it",
    "llama.cpp, no numbers": "Context size has been exceeded.",
    "vLLM": "This model's maximum context length is 4096 tokens. However, your prompt contains at "
    "least 4097 input tokens. Please reduce the length of the input prompt.",
}
GOOD = {"content": "There."}


def history(results: int = 20) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look through all parts."}]
    for n in range(results):
        function = {"name": "read", "arguments": json.dumps({"path": f"part_{n}"})}
        calls = [{"id": f"c{n}", "type": "function", "function": function}]
        text = "\n".join(f"value_{n}_{at} = {at * n * 31337 % 99991}" for at in range(24))
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return messages


HISTORY = history()


def refused(message: str, status: int = 400) -> Answer:
    return Answer(json.dumps({"error": {"message": message, "code": status}}).encode(), status)


def good(seen: Seen) -> Answer:
    return sse(events(GOOD)) if seen.json.get("stream") else completion(GOOD)


async def asked(client: Any, stream: bool, messages: Any = HISTORY) -> str:
    answer = await done(client.chat.completions.create(model="m", messages=messages, stream=stream))
    if not stream:
        return str(answer.choices[0].message.content)
    return "".join(chunk.choices[0].delta.content or "" for chunk in await listed(answer))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wording", WORDINGS)
async def test_a_smaller_request_is_answered(
    wording: str, stream: bool, kind: str, make: Make, server: NullServer
) -> None:
    happened: list[Event] = []
    client = wrap(make(kind), policy=UNPROBED, on_event=happened.append)
    server.respond = good
    server.scripted.append(refused(WORDINGS[wording]))
    assert await asked(client, stream) == "There."
    first, second = server.chats
    assert len(second.body) < len(first.body)
    assert second.header("content-length") == str(len(second.body))
    assert [type(event) for event in happened if not isinstance(event, Edited)] == [
        Overflowed,
        TurnFinished,
    ]
    more = [*HISTORY, {"role": "assistant", **GOOD}, {"role": "user", "content": "And?"}]
    await asked(client, stream, more)
    assert len(server.chats) == 3
    assert server.chats[2].messages[: len(second.messages)] == second.messages


@pytest.mark.parametrize("stream", [False, True])
async def test_what_cannot_be_smaller_is_the_callers(
    stream: bool, plain_kind: str, make: Make, server: NullServer
) -> None:
    bare = make(plain_kind)
    server.respond = lambda seen: refused(WORDINGS["vLLM"])
    raised = []
    for client in (bare, wrap(bare, policy=UNPROBED)):
        with pytest.raises(openai.BadRequestError) as caught:
            await asked(client, stream, HISTORY[:1])
        raised.append((caught.value.status_code, caught.value.body, caught.value.message))
    assert raised[0] == raised[1]
    assert len(server.chats) == 2


async def test_refused_twice_is_the_servers_own_error(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    server.respond = lambda seen: refused(WORDINGS["llama.cpp"])
    with pytest.raises(openai.BadRequestError, match="9000 tokens"):
        await asked(wrap(make(plain_kind), policy=UNPROBED), stream=False)
    assert len(server.chats) == 2


@pytest.mark.parametrize("mode", ["observe", "safe"])
async def test_no_second_request_but_in_full_mode(
    mode: Any, plain_kind: str, make: Make, server: NullServer
) -> None:
    server.respond = lambda seen: refused(WORDINGS["llama.cpp"])
    with pytest.raises(openai.BadRequestError):
        await asked(wrap(make(plain_kind), policy=Policy(mode=mode, probe=False)), stream=True)
    assert len(server.chats) == 1


async def test_a_stream_that_breaks_off_is_tried_again_with_less(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    """The caller has its beginning already: it is whoever calls who tries again."""
    error = b'data: {"error": {"code": 500, "message": "Context size has been exceeded."}}\n\n'
    server.respond = good
    server.scripted.append(sse([*events(GOOD)[:2], error]))
    client = wrap(make(plain_kind), policy=UNPROBED)
    opened = await done(client.chat.completions.create(model="m", messages=HISTORY, stream=True))
    with pytest.raises(openai.APIError, match="Context size has been exceeded"):
        await listed(opened)
    await done(opened.close())  # openai 2.0 leaves it open
    assert await asked(client, stream=True) == "There."
    first, second = server.chats
    assert len(second.body) < 0.8 * len(first.body)


async def test_what_the_sdk_retries_gets_smaller_each_time(
    plain_kind: str, make: Make, server: NullServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    server.respond = good
    server.scripted.extend(refused(WORDINGS["llama.cpp, no numbers"], 500) for _ in range(2))
    client = wrap(make(plain_kind, max_retries=1), policy=UNPROBED)
    assert await asked(client, stream=False) == "There."
    sizes = [len(seen.body) for seen in server.chats]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


# -- a real server


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a llama.cpp server with a window of 2,048 tokens and a model of no sense."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    tiny_model = pytest.importorskip("tests.tiny_model", reason="run from the repository's root")
    from kvagent.cli.demo.server import CHAT_TEMPLATE, LlamaCpp, ServerError, default_model

    try:
        vocabulary = default_model()
    except ServerError as error:
        pytest.skip(str(error))
    folder: Path = tmp_path_factory.mktemp("model")
    model = tiny_model.write(folder / "tiny.gguf", vocabulary, tiny_model.SLIM)
    with LlamaCpp(model, CHAT_TEMPLATE, n_ctx=2048, threads=1, parse_tool_calls=False) as running:
        yield running.base_url


TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
]


class Agent:
    """Reads one part after the other, whatever the model says of it."""

    def __init__(self, client: Any, stream: bool) -> None:
        self._client = client
        self._stream = stream
        self._messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You read files."},
            {"role": "user", "content": "Look through all parts."},
        ]

    async def run(self, turns: int) -> None:
        for number in range(turns):
            await self._turn(number)

    async def _turn(self, number: int, lines: int = 14) -> None:
        answer = await done(
            self._client.chat.completions.create(
                model="m",
                messages=self._messages,
                tools=TOOLS,
                max_tokens=4,
                temperature=0,
                stream=self._stream,
                stream_options={"include_usage": True} if self._stream else openai.NOT_GIVEN,
            )
        )
        if self._stream:
            parts = [c.choices[0].delta.content or "" for c in await listed(answer) if c.choices]
            text = "".join(parts)
        else:
            text = answer.choices[0].message.content or ""
        *_, call, result = history(number + 1)
        result["content"] = "\n".join(result["content"].split("\n")[:lines])
        self._messages += [{**call, "content": text}, result]
        if number % 4 == 3:
            self._messages += [
                {"role": "assistant", "content": f"Part {number} is read."},
                {"role": "user", "content": f"Go on with part {number + 1}."},
            ]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_whose_window_is_reported_wrongly_sees_no_error(
    stream: bool, tiny: str, plain_kind: str
) -> None:
    happened: list[Event] = []
    policy = Policy(window=8_192, recall=Recall())
    bare = getattr(openai, plain_kind)(base_url=tiny, api_key="-", max_retries=0)
    client = wrap(bare, policy=policy, on_event=happened.append)
    agent = Agent(client, stream)
    await agent.run(30)
    await done(bare.close())
    refusals = [event for event in happened if isinstance(event, Overflowed)]
    turns = [event for event in happened if isinstance(event, TurnFinished)]
    assert len(turns) == 30
    assert 1 <= len(refusals) <= 3, "the window is learned"
    assert {event.window for event in refusals} == {2_048}
    assert all((event.prompt_tokens or 0) < 2_048 for event in turns)
    assert turns[-1].window == 2_048
    assert not [event for event in happened if isinstance(event, kvagent.Bypassed)]


async def test_the_same_agent_fails_without_kvagent(tiny: str) -> None:
    with openai.OpenAI(base_url=tiny, api_key="-", max_retries=0) as client:
        agent = Agent(client, stream=False)
        with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
            await agent.run(30)


async def test_the_probe_tells_the_window_and_nothing_is_refused(tiny: str) -> None:
    happened: list[Event] = []
    with openai.OpenAI(base_url=tiny, api_key="-", max_retries=0) as bare:
        engine = Engine(on_event=happened.append)
        agent = Agent(wrap(bare, engine=engine), stream=False)
        await agent.run(20)
    assert not [event for event in happened if isinstance(event, Overflowed)]
    assert engine.window == 2_048
