"""Does the demo's agent do the same in every run, and count what the server counts?"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from kvagent.cli.demo import script, tools
from kvagent.cli.demo.agent import Agent, ReplyError, Turn
from kvagent.cli.demo.habits import Clock
from kvagent.cli.demo.tools import Toolbox

if TYPE_CHECKING:
    from tests.cli.demo.conftest import FakeClient

ROOT = tools.find_root()


def test_two_runs_send_the_same(fake: FakeClient) -> None:
    Agent(fake.client, Toolbox(ROOT), Clock()).run()
    first = [json.dumps(body) for body in fake.bodies]
    fake.bodies.clear()
    Agent(fake.client, Toolbox(ROOT), Clock()).run()
    assert [json.dumps(body) for body in fake.bodies] == first


def test_an_agent_without_habits_only_appends(fake: FakeClient) -> None:
    Agent(fake.client, Toolbox(ROOT), None).run()
    assert len(fake.bodies) == 12
    for before, after in itertools.pairwise(fake.bodies):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"] == before["tools"]


def test_the_reply_is_kept_and_the_scripts_call_added(fake: FakeClient) -> None:
    Agent(fake.client, Toolbox(ROOT), None).run(script.steps(ROOT)[:2])
    reply, result = fake.bodies[1]["messages"][-2:]
    assert reply["content"] == "Reply 1."
    assert reply["tool_calls"][0]["id"] == result["tool_call_id"]
    assert json.loads(reply["tool_calls"][0]["function"]["arguments"])["first"] == 1
    assert result["content"].startswith('"""Which tools')


def test_figures_are_the_servers(fake: FakeClient) -> None:
    seen: list[Turn] = []
    kept: list[tuple[dict[str, Any], dict[str, Any]]] = []
    agent = Agent(
        fake.client,
        Toolbox(ROOT),
        None,
        on_turn=seen.append,
        record=lambda body, reply: kept.append((body, reply)),
    )
    turns = agent.run(script.steps(ROOT)[:2])
    assert turns == seen
    assert [(turn.prompt_tokens, turn.prefilled_tokens) for turn in turns] == [
        (100, 90),
        (200, 190),
    ]
    assert [body for body, _ in kept] == fake.bodies
    message = {"role": "assistant", "content": "Reply 1."}
    assert kept[0][1] == {
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": None}],
    }


def test_a_server_that_does_not_count_is_an_error(fake: FakeClient) -> None:
    fake.cached_tokens = None
    with pytest.raises(ReplyError, match="how many tokens were cached"):
        Agent(fake.client, Toolbox(ROOT), None).run()
