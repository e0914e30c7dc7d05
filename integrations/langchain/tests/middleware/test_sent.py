"""What is the model sent, and what of it stays in the agent's state?"""

from __future__ import annotations

import json

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from kvagent_langchain.middleware import KVAgentMiddleware

# Tests are no package, so there is no absolute name for this.
from ..task_agent import CONFIG, POLICY, agent, task  # noqa: TID252
from ..task_server import TaskServer  # noqa: TID252
from .calling import BOTH_WAYS, CONVERSATION, LONG, Calling, Handler, asked, quiet, response_of


@BOTH_WAYS
def test_a_long_result_is_shortened_for_the_model_alone(call: Calling) -> None:
    request, handler = asked(*CONVERSATION), Handler()
    handled = call(quiet(), request, handler)
    assert response_of(handled).result == [AIMessage("fine")]
    (sent,) = handler.requests
    assert sent.messages[0] is CONVERSATION[0]
    assert sent.messages[1] is CONVERSATION[1]
    assert len(sent.messages[2].text) < 5000 < len(LONG)
    assert request.messages[2].text == LONG


@BOTH_WAYS
def test_what_needs_no_change_is_the_very_request(call: Calling) -> None:
    request, handler = asked(HumanMessage("hi")), Handler()
    call(quiet(), request, handler)
    assert handler.requests[0] is request


def test_the_memory_is_no_part_of_what_comes_out(tasks: TaskServer) -> None:
    working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)])
    assert set(working.invoke(task(0))) == {"messages"}


def test_what_a_state_holds_is_json(tasks: TaskServer) -> None:
    working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=InMemorySaver())
    working.invoke(task(0), CONFIG)
    assert json.dumps(working.get_state(CONFIG).values["kvagent"])
