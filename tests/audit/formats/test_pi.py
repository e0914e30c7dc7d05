"""Are the requests of a session of pi those that it sent?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import items, requests, roles, unreadable

Line = dict[str, Any]
HEAD = {"type": "session", "id": "s", "cwd": "/x"}


def said(role: str, content: Any, **more: Any) -> Line:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def model(*blocks: Line, **more: Any) -> Line:
    usage = {"input": 3, "cacheRead": 90, "cacheWrite": 7, "output": 5}
    return said("assistant", list(blocks), **{"usage": usage, "model": "m", **more})


def text(text: str) -> Line:
    return {"type": "text", "text": text}


CALL = {"type": "toolCall", "id": "a", "name": "ls", "arguments": {"at": "."}}
SESSION = [
    said("user", [text("Look.")]),
    model(CALL, {"type": "thinking", "thinking": "Hm."}),
    said("toolResult", [text("a.py")], toolCallId="a"),
    model(text("One.")),
]


def tree(*lines: Line) -> list[Line]:
    """The same, each naming the one before it."""
    return [
        {**line, "id": str(at), "parentId": str(at - 1) if at else None}
        for at, line in enumerate(lines)
    ]


def test_a_session_that_is_a_list_or_a_tree(tmp_path: Path) -> None:
    for lines in (SESSION, tree(*SESSION)):
        first, second = requests(tmp_path, HEAD, *lines)
        assert (roles(first), roles(second)) == ("u", "uat")
        assert second.messages[2] == {"role": "tool", "tool_call_id": "a", "content": "a.py"}
        assert first.replies[0]["tool_calls"][0]["function"]["arguments"] == '{"at":"."}'
        assert first.reported == Reported(100, 90, 5, 7)
        assert first.conversation == "s"
        assert first.complete == frozenset()


def test_going_back_is_a_branch(tmp_path: Path) -> None:
    lines = tree(*SESSION, said("user", "More."), model(text("No.")))
    other = {**said("user", "Less."), "id": "x", "parentId": "3"}
    last = {**model(text("Yes.")), "id": "y", "parentId": "x"}
    *_, one, two = requests(tmp_path, HEAD, *lines, other, last)
    assert [m["content"] for m in one.messages[-2:]] == ["One.", "More."]
    assert [m["content"] for m in two.messages[-2:]] == ["One.", "Less."]
    assert (one.departs, two.departs) == (None, "branch")


def test_a_compaction_keeps_the_end(tmp_path: Path) -> None:
    more = [said("user", "More."), model(text("On."))]
    summary = {"type": "compaction", "summary": "One file.", "firstKeptEntryIndex": 3}
    *_, by_index = requests(tmp_path, HEAD, *SESSION, summary, *more)
    named = {"type": "compaction", "summary": "One file.", "firstKeptEntryId": "2"}
    *_, by_name = requests(tmp_path, HEAD, *tree(*SESSION, named, *more))
    for request in (by_index, by_name):
        assert roles(request) == "utau"
        assert request.departs == "compaction"
        assert "One file." in request.messages[0]["content"]
        assert request.messages[1]["content"] == "a.py"


def test_what_came_to_nothing_is_not_sent_again(tmp_path: Path) -> None:
    nothing = {"input": 0, "cacheRead": 0, "cacheWrite": 0, "output": 0}
    failed = model(stopReason="error", errorMessage="too long", usage=nothing)
    broken = model(text("I wou"), stopReason="aborted", errorMessage="aborted")
    lines = [*SESSION, said("user", "1"), failed, said("user", "2"), broken, said("user", "3")]
    *_, one, two, three = requests(tmp_path, HEAD, *lines, model(text("On.")))
    assert (one.error, one.replies, one.reported) == ("too long", (), Reported())
    assert (two.error, two.replies[0]["content"]) == ("aborted", "I wou")
    assert two.reported.prompt_tokens == 100
    assert [m["content"] for m in three.messages[-4:]] == ["One.", "1", "2", "3"]
    assert {each.departs for each in (one, two, three)} == {None}


def test_what_the_user_ran_is_told(tmp_path: Path) -> None:
    ran = {"role": "bashExecution", "command": "ls", "output": "a.py"}
    hidden = {**ran, "command": "pwd", "excludeFromContext": True}
    lines = [*({"type": "message", "message": each} for each in (ran, hidden)), model(text("On."))]
    (request,) = requests(tmp_path, HEAD, *lines)
    (message,) = request.messages
    assert "ls" in message["content"]
    assert "a.py" in message["content"]


def test_pictures_stay_pictures(tmp_path: Path) -> None:
    seen = [text("This:"), {"type": "image", "mimeType": "image/png", "data": "AAAA"}]
    (request,) = requests(tmp_path, HEAD, said("user", seen), model(text("A cat.")))
    assert request.messages[0]["content"][1]["image_url"]["url"] == "data:image/png;base64,AAAA"


def test_entries_that_cannot_be_read(tmp_path: Path) -> None:
    found = items(tmp_path, HEAD, *SESSION[:3], {"type": "message"}, SESSION[3])
    assert len(unreadable(found)) == 1
    assert len(found) == 3
