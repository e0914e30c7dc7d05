"""Does every conversation on a shared client go out as if it had run alone?"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from threading import Thread
from typing import Any

from kvagent import Engine
from kvagent.chat import ChatReply
from kvagent.flow import Answer as Told
from kvagent.flow import Call, drive
from kvagent_openai import wrap

from .conftest import UNPROBED, Make
from .null_server import Answer, NullServer, Seen, completion, events, sse

WORKERS = 64
"""So many threads, and as many tasks."""
AGENTS = 4 * WORKERS
TURNS = 8

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"To {name}.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("find", "list", "read")
]


def generated(body: bytes) -> dict[str, Any]:
    """What the model says: it follows from the prompt's bytes, so one wrong byte shows from then on."""
    digest = sha256(body).hexdigest()
    if int(digest[0], 16) % 3:
        return {"role": "assistant", "content": f"So be it, {digest[:12]}."}
    arguments = json.dumps({"path": digest[:12], "lines": [1, 2]}, separators=(",", ":"))
    call = {
        "id": f"call_{digest[:8]}",
        "type": "function",
        "function": {"name": "read", "arguments": arguments},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def respond(seen: Seen) -> Answer:
    message = generated(seen.body)
    return sse(events(message, piece=12)) if seen.json.get("stream") else completion(message)


class Agent:
    """One conversation, with the habits of real agents: clocks, flipping tools, dumped anew."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stream = number % 2 == 0
        # Several agents begin with the very same words, some of them at the same second.
        self.history: list[dict[str, Any]] = [{"role": "user", "content": f"Task {number % 8}."}]

    def turns(self) -> Iterator[dict[str, Any]]:
        """The requests, each to be answered with `hear` before the next is taken."""
        for turn in range(TURNS):
            second = (self.number % 16 + turn * 3) % 60
            system = f"You are an agent.\nCurrent time: 2026-03-01 09:00:{second:02d}\nBe brief."
            yield {
                "model": "m",
                "messages": [{"role": "system", "content": system}, *self.history],
                "tools": TOOLS if turn % 2 == 0 else TOOLS[::-1],
                **({"stream": True} if self.stream else {}),
            }

    def hear(self, content: str | None, calls: list[dict[str, Any]]) -> None:
        said: dict[str, Any] = {"role": "assistant", "content": content or ""}
        if calls:
            dumped = json.dumps(json.loads(calls[0]["function"]["arguments"]), indent=1)
            function = {"arguments": dumped, "name": calls[0]["function"]["name"]}
            said["tool_calls"] = [{**calls[0], "function": function}]
            result = f"File of {self.number}:\n" + "line\n" * 30
            answer = {"role": "tool", "tool_call_id": calls[0]["id"], "content": result}
        else:
            answer = {"role": "user", "content": f"Next, {self.number}, {len(self.history)}."}
        self.history += [said, answer]


def as_it_is(asked: dict[str, Any]) -> dict[str, Any]:
    """Arguments with which the SDK takes messages and tools over unread: reading is slow."""
    given = {"messages": asked["messages"], "tools": asked["tools"]}
    return {**asked, "messages": [], "tools": [], "extra_body": given}


def sdk_bytes(asked: dict[str, Any], keys: list[str]) -> bytes:
    """The body as the SDK writes it, whose versions have the keys in different orders."""
    ordered = {key: asked[key] for key in keys if key in asked}
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()


def alone(number: int, keys: list[str]) -> list[bytes]:
    """What goes out when the conversation has an engine to itself; no client, no network."""
    agent, engine, sent = Agent(number), Engine(UNPROBED), []

    def deliver(call: Call) -> tuple[Told, None]:
        sent.append(call.body)
        return Told(200), None

    for asked in agent.turns():
        _, settle = drive(engine.turn(sdk_bytes(asked, keys)), deliver)
        message = generated(sent[-1])
        settle(ChatReply((message,), {}, complete=True), None)
        agent.hear(message["content"], message.get("tool_calls") or [])
    return sent


def in_thread(client: Any, agents: Sequence[Agent]) -> None:
    for agent in agents:
        run(client, agent)


async def in_task(client: Any, agents: Sequence[Agent]) -> None:
    for agent in agents:
        await arun(client, agent)


def run(client: Any, agent: Agent) -> None:
    for asked in agent.turns():
        reply = client.chat.completions.create(**as_it_is(asked))
        if agent.stream:
            agent.hear(*joined([chunk.choices[0].delta for chunk in reply]))
        else:
            message = reply.choices[0].message
            agent.hear(message.content, [call.to_dict() for call in message.tool_calls or ()])


async def arun(client: Any, agent: Agent) -> None:
    for asked in agent.turns():
        reply = await client.chat.completions.create(**as_it_is(asked))
        if agent.stream:
            agent.hear(*joined([chunk.choices[0].delta async for chunk in reply]))
        else:
            message = reply.choices[0].message
            agent.hear(message.content, [call.to_dict() for call in message.tool_calls or ()])


def joined(deltas: list[Any]) -> tuple[str, list[dict[str, Any]]]:
    calls: list[dict[str, Any]] = []
    for delta in deltas:
        for part in delta.tool_calls or ():
            if part.id:
                calls.append(part.to_dict(exclude_unset=True))
                calls[-1].pop("index")
            else:
                calls[-1]["function"]["arguments"] += part.function.arguments
    return "".join(delta.content or "" for delta in deltas), calls


async def test_threads_and_tasks(make: Make, server: NullServer) -> None:
    server.respond = respond
    asked = next(Agent(0).turns())
    make("OpenAI").chat.completions.create(**as_it_is(asked))
    raw = server.seen.pop()
    keys = list(raw.json)
    assert raw.body == sdk_bytes(asked, keys)

    engine = Engine(UNPROBED)
    client = wrap(make("OpenAI"), engine=engine)
    async_client = wrap(make("AsyncOpenAI"), engine=engine)
    agents = [Agent(number) for number in range(AGENTS)]
    shares = [agents[worker :: 2 * WORKERS] for worker in range(2 * WORKERS)]
    threads = [Thread(target=in_thread, args=(client, share)) for share in shares[:WORKERS]]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(in_task(async_client, share) for share in shares[WORKERS:]))
    for thread in threads:
        thread.join()

    assert len(server.chats) == AGENTS * TURNS >= 2000
    expected = (body for agent in agents for body in alone(agent.number, keys))
    assert Counter(seen.body for seen in server.chats) == Counter(expected)
