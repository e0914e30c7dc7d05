"""Has every conversation on a server a slot of its own?"""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from kvagent import Engine, Policy
from kvagent.backends import Server
from kvagent.policy import Hints
from kvagent_langchain.middleware import KVAgentMiddleware
from kvagent_langchain.server import Servers

# Tests are no package, so there is no absolute name for this.
from ..task_agent import agent, task  # noqa: TID252
from ..task_server import TaskServer  # noqa: TID252


def test_conversations_of_one_server_are_given_slots_of_their_own(
    tasks: TaskServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(_: Servers, engine: Engine, __: Any) -> None:
        engine.know(Server("llama.cpp", window=4000, slots=4))

    monkeypatch.setattr(Servers, "ask", known)
    middleware = KVAgentMiddleware(Policy(hints=Hints(id_slot="conversation")))
    working = agent(tasks.base_url, [middleware], checkpointer=InMemorySaver())
    for name in ("a", "b", "a"):
        working.invoke(task(ord(name), 1), {"configurable": {"thread_id": name}})
    assert [request["id_slot"] for request in tasks.requests] == [0, 0, 1, 1, 0, 0]
