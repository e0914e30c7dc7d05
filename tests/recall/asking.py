"""What does a model ask for of what was shortened, and what was it told?"""

from __future__ import annotations

import json
import re
from typing import Any

from kvagent import Recall
from kvagent.recall import RECALL
from tests.scripted import Scripted, Served, tokens_of
from tests.wire import Message, call, result, say, tool

LONG = "\n".join(
    f"line {n}: job {n * 7919 % 100_003} took {n * 31 % 997} ms" for n in range(1, 901)
)
TOOLS = [tool("read", path={"type": "string"}), tool("run", command={"type": "string"})]
FINAL = say("assistant", "Job 7919 took 31 ms.")


def asks(handle: str, id: str = "ask-1", content: str | None = None, **part: Any) -> Message:
    return call(id, RECALL, {"handle": handle, **part}, content)


def asks_all(handle: str) -> Message:
    return asks(handle)


def history(content: str = LONG) -> list[Message]:
    return [
        say("system", "You help."),
        say("user", "Look."),
        call("call-1", "run", {"command": "jobs"}),
        result("call-1", content),
    ]


def recalling(**recall: Any) -> Scripted:
    return Scripted(recall=Recall(**recall))


def handle_in(messages: list[Message]) -> str:
    found = re.search(r"\br[0-9a-f]{12}\b", str(messages[3]["content"]))
    assert found is not None
    return found[0]


class Model:
    """Answers with each message in turn; one that is callable is given the handle first."""

    def __init__(self, *replies: Any, usage: Any = None) -> None:
        self.replies = list(replies)
        self.usage = usage

    def __call__(self, body: dict[str, Any]) -> Served:
        reply = self.replies.pop(0)
        if isinstance(reply, Served):
            return reply
        message = reply(handle_in(body["messages"])) if callable(reply) else reply
        prompt = tokens_of(body)
        counts = {"prompt_tokens": prompt, "completion_tokens": 20}
        return Served(message, self.usage or counts)


def told(scripted: Scripted) -> list[str]:
    """What the model was told of its questions, in the request that went out last."""
    return [
        str(message["content"])
        for message in scripted.last
        if message["role"] == "tool" and str(message["tool_call_id"]).startswith("ask")
    ]


def reserialised(message: Message) -> Message:
    """As a framework gives it back that reads a reply into classes of its own."""
    calls = [
        {
            **one,
            "index": 0,
            "function": {
                **one["function"],
                "arguments": json.dumps(json.loads(one["function"]["arguments"]), indent=1),
            },
        }
        for one in message.get("tool_calls") or ()
    ]
    content = message["content"]
    parts = [{"type": "text", "text": content}] if content else content
    return {
        "content": parts,
        "refusal": None,
        "role": "assistant",
        **({"tool_calls": calls} if calls else {}),
    }
