"""Are the requests of a trajectory those that SWE-agent sent?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.audit.formats.files import (
    ANSWER,
    CALL,
    RESULT,
    SESSION,
    USER,
    requests,
    roles,
)

HISTORY = [
    {"agent": "main", "message_type": "system_prompt", **SESSION[0]},
    {"agent": "main", "message_type": "observation", **USER},
    {"agent": "main", "thought": "Look.", "action": "ls", **CALL},
    {"agent": "main", "role": "tool", "content": "a.py", "tool_call_ids": ["call_1"]},
    {"agent": "main", **ANSWER},
]


def test_a_history(tmp_path: Path) -> None:
    value: dict[str, Any] = {
        "environment": "x",
        "trajectory": [{"action": "ls"}],
        "history": HISTORY,
    }
    first, second = requests(tmp_path, value)
    assert list(first.messages) == SESSION[:2]
    assert roles(second) == "suat"
    assert second.messages[3] == RESULT
    assert "action" not in second.messages[2]
    assert first.complete == {"system"}


def test_agents_below_have_conversations_of_their_own(tmp_path: Path) -> None:
    other = [{**message, "agent": "sub"} for message in HISTORY]
    value = {"trajectory": [], "history": [*HISTORY[:3], *other, *HISTORY[3:]]}
    found = requests(tmp_path, value)
    assert [(each.conversation, roles(each)) for each in found] == [
        ("main", "su"),
        ("main", "suat"),
        ("sub", "su"),
        ("sub", "suat"),
    ]


def test_what_was_sent_is_read_where_it_is_there(tmp_path: Path) -> None:
    elided = [*HISTORY[:3], {**HISTORY[3], "content": "Old output omitted."}]
    steps = [
        {"query": HISTORY[:2], "response": "I look.", "thought": "Look."},
        {"query": elided, "response": "One."},
        {"query": []},
    ]
    first, second = requests(
        tmp_path, {"trajectory": steps, "history": HISTORY, "environment": "x"}
    )
    assert second.messages[3]["content"] == "Old output omitted."
    assert (first.unrolled, first.replies[0]["content"]) == (False, "I look.")
    assert second.place.path == ".trajectory[1].query"
