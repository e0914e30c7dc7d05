"""Are the runs of τ-bench read as what its agent sent?"""

from __future__ import annotations

from pathlib import Path

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import (
    CALL,
    RESULT,
    SESSION,
    USER,
    items,
    requests,
    roles,
    unreadable,
)


def test_a_run(tmp_path: Path) -> None:
    runs = [{"task_id": 1, "trial": trial, "traj": SESSION} for trial in (0, 1)]
    for value in (runs, {"simulations": [{"id": "x", "task_id": 1, "messages": SESSION}] * 2}):
        found = requests(tmp_path, value)
        assert [roles(each) for each in found] == ["su", "suat"] * 2
        assert found[0].complete == {"system"}
    assert [each.conversation for each in requests(tmp_path, runs)] == ["1/0"] * 2 + ["1/1"] * 2
    found = requests(tmp_path, *runs)
    assert found[-1].place.line == 2
    broken = items(tmp_path, [*runs, {"task_id": 2, "traj": [7]}, 8])
    assert len(unreadable(broken)) == 2


def test_what_the_user_and_its_tools_say_is_not_told_the_agent(tmp_path: Path) -> None:
    call = {"id": "call_1", "name": "ls", "arguments": {}, "requestor": "assistant"}
    usage = {"prompt_tokens": 100, "completion_tokens": 5}
    messages = [
        {"role": "assistant", "content": "Hi!", "turn_idx": 0},
        {"role": "user", "content": USER["content"], "turn_idx": 1},
        {
            "role": "user",
            "content": None,
            "tool_calls": [{"id": "u", "name": "x", "arguments": {}}],
        },
        {"role": "tool", "id": "u", "content": "y", "requestor": "user"},
        {"role": "assistant", "content": None, "tool_calls": [call], "usage": usage},
        {"role": "tool", "id": "call_1", "content": "a.py", "requestor": "assistant"},
        {"role": "assistant", "content": "One."},
    ]
    value = {"simulations": [{"task_id": "t", "trial": 0, "messages": messages}]}
    first, second = requests(tmp_path, value)
    assert list(first.messages) == [{"role": "assistant", "content": "Hi!"}, USER]
    assert first.reported == Reported(100, None, 5)
    assert list(second.messages)[2:] == [CALL, RESULT]
    assert first.complete == frozenset()
