"""Are the requests of a session on the web those that it sent?"""

from __future__ import annotations

from pathlib import Path

from kvagent.audit.formats import read
from kvagent.audit.transcript import Request, Unreadable
from tests.audit.formats.files import roles, write


def test_lines_follow_one_another(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "a", "name": "ls", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "a.py"}
    lines = [
        {"type": "user", "message": {"role": "user", "content": "Look."}},
        {"type": "assistant", "message": {"role": "assistant", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
        "broken",
        {"type": "assistant", "message": {"role": "assistant", "content": "One."}},
    ]
    broken, first, second = read(write(tmp_path, {"loglines": lines}, indent=1))
    assert isinstance(broken, Unreadable)
    assert broken.place.path == ".loglines[3]"
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert (roles(first), roles(second)) == ("u", "uat")
    assert second.replies[0]["content"] == "One."
    assert second.place.path == ".loglines[4]"
