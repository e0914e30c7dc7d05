"""Are the demo's bad habits those of real agents: other bytes, the same meaning?"""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from kvagent.cli.demo import habits, script, tools
from kvagent.cli.demo.agent import Agent
from kvagent.cli.demo.tools import Toolbox

if TYPE_CHECKING:
    from tests.cli.demo.conftest import FakeClient

ROOT = tools.find_root()


@pytest.fixture
def messages(fake: FakeClient) -> list[dict[str, Any]]:
    Agent(fake.client, Toolbox(ROOT), None).run(script.steps(ROOT)[:6])
    found: list[dict[str, Any]] = fake.bodies[-1]["messages"]
    return found


def test_habits_change_bytes_and_not_meaning(messages: list[dict[str, Any]]) -> None:
    original = copy.deepcopy(messages)
    clock, rng = habits.Clock(), random.Random(1)
    sent = [habits.with_habits(messages, tools.DEFINITIONS, clock(), rng) for _ in range(12)]

    assert messages == original
    heads = [turn[0]["content"] for turn, _ in sent]
    assert len({head.split("\n")[0] for head in heads}) == len(sent), "a clock to the second"
    assert {head.split("\n", 1)[1] for head in heads} == {messages[0]["content"]}
    assert len({json.dumps(offered) for _, offered in sent}) == len(sent)
    by_name = [sorted(offered, key=lambda tool: tool["function"]["name"]) for _, offered in sent]
    assert all(offered == by_name[0] for offered in by_name), "the same but for order"
    first_call = [turn[2] for turn, _ in sent]
    assert {message["content"] for message in first_call} == {"", None}
    arguments = [message["tool_calls"][0]["function"]["arguments"] for message in first_call]
    assert len(set(arguments)) > 2
    assert len({json.dumps(json.loads(text), sort_keys=True) for text in arguments}) == 1
    assert len({tuple(message) for message in first_call}) > 1, "keys in another order"
    assert {"refusal" in message for message in first_call} == {True, False}


def test_the_reminder_moves(messages: list[dict[str, Any]]) -> None:
    for end in range(2, len(messages) + 1):
        sent, _ = habits.with_habits(
            messages[:end], tools.DEFINITIONS, habits.Clock()(), random.Random(1)
        )
        holders = [message for message in sent if habits.REMINDER in (message["content"] or "")]
        assert len(holders) == 1
        assert holders[0]["role"] in {"user", "tool"}
        assert not [m for m in sent[sent.index(holders[0]) + 1 :] if m["role"] in {"user", "tool"}]
