"""Are the prompts of an answer those that ToolBench sent?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.audit.formats.files import (
    ANSWER,
    SESSION,
    TOOL,
    items,
    requests,
    roles,
    unreadable,
)


def test_an_answer(tmp_path: Path) -> None:
    call = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "ls", "arguments": "{}"},
    }
    told = {"role": "function", "name": "ls", "content": "a.py"}
    hint = {"role": "user", "content": "Try something else."}
    answer: dict[str, Any] = {
        "function": [TOOL["function"]],
        "train_messages": [
            [*SESSION[:2], call],
            [*SESSION[:2], call, told, hint, call],
            [*SESSION[:2], call, told, call, told, ANSWER],
            [],
        ],
    }
    found = items(tmp_path, {"tree": {}, "answer_generation": answer})
    assert len(unreadable(found)) == 1
    first, second, third = requests(
        tmp_path,
        {"answer_generation": {**answer, "train_messages": answer["train_messages"][:3]}},
    )
    assert [roles(each) for each in (first, second, third)] == ["su", "suatu", "suatat"]
    assert first.tools == [TOOL]
    assert not first.unrolled
    # The hint is gone from the middle of the next prompt: that is what the file is read for.
    assert second.messages[:4] == third.messages[:4]
    assert second.messages[4] != third.messages[4]
    assert first.complete == {"system", "tools"}
