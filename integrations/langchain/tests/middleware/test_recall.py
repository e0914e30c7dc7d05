"""Does a model get back what was shortened?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from kvagent import Policy
from kvagent.policy import Recall
from kvagent_langchain.middleware import KVAgentMiddleware

# Tests are no package, so there is no absolute name for this.
from ..task_agent import CONFIG, agent  # noqa: TID252
from ..task_server import task_server  # noqa: TID252

LINES = "\n".join(f"line {line}: {line * 7919 % 10007}" for line in range(3000))


def asking(request: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a text, asks for the lines that were left out, and tells what it was told."""
    last = request["messages"][-1]
    if last["role"] == "user":
        return _calling("call_1", "look", {})
    handle = re.search(r"\br[0-9a-f]{12}\b", last["content"])
    if handle is not None and last["tool_call_id"] == "call_1":
        return _calling("call_2", "kvagent_recall", {"handle": handle[0], "lines": "1500-1501"})
    return {"role": "assistant", "content": f"It says: {last['content']}"}


def _calling(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def look() -> str:
    """Look at the text."""
    return LINES


@pytest.mark.parametrize("store", [None, "kvagent.db"])
@pytest.mark.parametrize("answer", ["kvagent", "agent"])
def test_a_model_gets_back_what_was_shortened(
    answer: Any, store: str | None, tmp_path: Any
) -> None:
    policy = Policy(window=6000, recall=Recall(answer=answer))
    saver = InMemorySaver()
    with task_server(reply=asking) as server:
        for turn in range(2):
            middleware = KVAgentMiddleware(policy, store=store and tmp_path / store)
            working = agent(server.base_url, [middleware], tools=[look], checkpointer=saver)
            given = {"messages": [{"role": "user", "content": f"look {turn}"}]}
            messages = working.invoke(given, CONFIG)["messages"]
            told = f"It says: line 1499: {1499 * 7919 % 10007}\nline 1500: {1500 * 7919 % 10007}\n"
            assert messages[-1].text == told
        requests = server.requests
    hidden = [m for m in messages if "kvagent_recall" in str(getattr(m, "tool_calls", ""))]
    assert len(hidden) == (2 if answer == "agent" else 0)
    assert len(requests) == 6
    names = [tool["function"]["name"] for tool in requests[0]["tools"]]
    assert sorted(names) == ["kvagent_recall", "look"]
    for before, after in pairwise(requests):
        assert after["tools"] == before["tools"]
        assert after["messages"][: len(before["messages"])] == before["messages"]
