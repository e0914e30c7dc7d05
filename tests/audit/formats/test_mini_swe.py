"""Are the requests of a trajectory those that mini-SWE-agent sent?"""

from __future__ import annotations

from pathlib import Path

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import (
    ANSWER,
    CALL,
    RESULT,
    SESSION,
    requests,
)


def test_a_trajectory(tmp_path: Path) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    extra = {"response": {"choices": [], "usage": usage}, "timestamp": 1_700_000_000}
    messages = [
        *SESSION[:2],
        {**CALL, "extra": extra},
        RESULT,
        {**ANSWER, "extra": {}},
        {"role": "exit", "content": ""},
    ]
    value = {"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": messages}
    first, second = requests(tmp_path, value)
    assert first.reported == Reported(100, 64, 5)
    assert first.time_s == 1_700_000_000
    assert second.reported == Reported()
    assert list(second.messages) == SESSION[:4]
