"""Are the calls of a trace of WEKA those that it names?"""

from __future__ import annotations

from pathlib import Path

from tests.audit.formats.files import hashed, items, unreadable


def test_an_agent_below_has_a_conversation_of_its_own(tmp_path: Path) -> None:
    call = {"t": 0.5, "type": "s", "in": 130, "out": 3, "hash_ids": [1, 2]}
    agent = {"type": "a", "agent_id": "sub", "requests": [call, {"in": "x"}]}
    trace = {"id": "t", "block_size": 64, "requests": [call, agent, call]}
    found = hashed(tmp_path, trace)
    assert [(each.conversation, each.time_s) for each in found] == [
        ("t", 0.5),
        ("t/sub", 0.5),
        ("t", 0.5),
    ]
    assert (found[1].block_size, found[1].prompt_tokens) == (64, 130)
    assert found[1].place.path == ".requests[1].requests[0]"
    assert len(unreadable(items(tmp_path, trace))) == 1
