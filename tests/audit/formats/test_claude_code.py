"""Are the requests of a session of Claude Code those that it sent?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvagent.audit.transcript import Reported, Request
from tests.audit.formats.files import items, requests, roles, unreadable

Line = dict[str, Any]


def line(uuid: str, parent: str | None, kind: str, content: Any, **more: Any) -> Line:
    message = {"role": kind, "content": content, **more.pop("message", {})}
    at = {"sessionId": "s", "timestamp": "2026-01-01T12:00:00Z", "isSidechain": False}
    return {**at, "type": kind, "uuid": uuid, "parentUuid": parent, "message": message, **more}


def model(uuid: str, parent: str, id: str, *blocks: Any, output: int = 1, **more: Any) -> Line:
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 7,
        "output_tokens": output,
    }
    message = {"id": id, "model": "claude", "usage": usage}
    return line(uuid, parent, "assistant", list(blocks), message=message, **more)


def text(text: str) -> Line:
    return {"type": "text", "text": text}


def call(id: str) -> Line:
    return {"type": "tool_use", "id": id, "name": "ls", "input": {"at": "."}}


def result(id: str, content: Any = "a.py") -> list[Line]:
    return [{"type": "tool_result", "tool_use_id": id, "content": content}]


SESSION = [
    {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
    line("1", None, "user", "Look."),
    model("2", "1", "m1", {"type": "thinking", "thinking": "Hm.", "signature": "x"}),
    model("3", "2", "m1", text("I look."), output=2),
    model("4", "3", "m1", call("a"), output=20),
    line("5", "4", "user", result("a")),
    model("6", "5", "m2", text("One file."), output=30),
]


def test_a_message_has_a_line_for_each_block(tmp_path: Path) -> None:
    first, second = requests(tmp_path, *SESSION)
    assert (roles(first), roles(second)) == ("u", "uat")
    assert dict(first.replies[0]) == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Hm.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"at":"."}'}}
        ],
    }
    assert first.reported == Reported(100, 90, 20, 7)  # counted once, with the last output
    assert first.place.line == 3
    assert second.messages[1] == first.replies[0]
    assert (first.conversation, first.time_s) == ("s", 1_767_268_800.0)
    assert first.complete == frozenset()
    assert first.unrolled


def test_results_of_calls_made_at_once_go_out_together(tmp_path: Path) -> None:
    both = [
        line("1", None, "user", "Look."),
        model("2", "1", "m1", call("a")),
        line("3", "2", "user", result("a")),  # it was there before the second call was written
        model("4", "2", "m1", call("b")),
        line("5", "4", "user", result("b")),
        model("6", "5", "m2", text("Two.")),
    ]
    _, last = requests(tmp_path, *both)
    assert roles(last) == "uatt"
    assert len(last.messages[1]["tool_calls"]) == 2


def test_going_back_is_a_branch(tmp_path: Path) -> None:
    again = [line("7", "6", "user", "More."), model("8", "7", "m3", text("No."))]
    other = [line("9", "6", "user", "Less."), model("10", "9", "m4", text("Yes."))]
    *_, one, two = requests(tmp_path, *SESSION, *again, *other)
    assert [one.messages[-1]["content"], two.messages[-1]["content"]] == ["More.", "Less."]
    assert one.messages[:-1] == two.messages[:-1]
    assert roles(two) == "uatau"
    assert (one.departs, two.departs) == (None, "branch")


def test_an_agent_below_has_a_conversation_of_its_own(tmp_path: Path) -> None:
    side = [
        line("s1", None, "user", "Search.", isSidechain=True, agentId="g"),
        model("s2", "s1", "m9", text("Found."), isSidechain=True, agentId="g"),
    ]
    found = requests(tmp_path, *SESSION[:-1], *side, SESSION[-1])
    assert [each.conversation for each in found] == ["s", "s/g", "s"]
    assert [roles(each) for each in found] == ["u", "u", "uat"]


def test_a_compaction_begins_anew(tmp_path: Path) -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "7",
        "parentUuid": None,
        "logicalParentUuid": "6",
        "sessionId": "s",
    }
    summary = line("8", "7", "user", "So far: one file.", isCompactSummary=True)
    *_, last = requests(tmp_path, *SESSION, boundary, summary, model("9", "8", "m3", text("On.")))
    assert [message["content"] for message in last.messages] == ["So far: one file."]
    assert last.departs == "compaction"
    assert last.conversation == "s"


def test_results_that_were_cleared_are_so_from_there_on(tmp_path: Path) -> None:
    cleared = {
        "type": "system",
        "subtype": "microcompact_boundary",
        "uuid": "7",
        "parentUuid": "6",
        "microcompactMetadata": {"compactedToolIds": ["a"]},
    }
    more = [line("8", "7", "user", "More."), model("9", "8", "m3", text("On."))]
    _, before, after = requests(tmp_path, *SESSION, cleared, *more)
    assert before.messages[2]["content"] == "a.py"
    assert "cleared" in after.messages[2]["content"]
    assert roles(after) == "uatau"
    assert (before.departs, after.departs) == (None, "clearing")


def test_an_error_is_not_shown_the_model(tmp_path: Path) -> None:
    failed = model("7", "6", "m3", text("API Error: too long"), isApiErrorMessage=True)
    failed["message"]["model"] = "<synthetic>"
    more = [line("8", "7", "user", "Again."), model("9", "8", "m4", text("On."))]
    *_, error, last = requests(tmp_path, *SESSION, failed, *more)
    assert error.error == "API Error: too long"
    assert error.reported == Reported()
    assert not error.replies
    assert [message["content"] for message in last.messages[-2:]] == ["One file.", "Again."]


def test_lines_that_cannot_be_read(tmp_path: Path) -> None:
    bad = [{"type": "user", "uuid": "x", "parentUuid": None}, 7]
    found = items(tmp_path, *SESSION, *bad)
    assert len(unreadable(found)) == 2
    assert len([each for each in found if isinstance(each, Request)]) == 2


def test_lines_that_name_each_other_in_a_circle(tmp_path: Path) -> None:
    circle = [
        line("1", "3", "user", "a"),
        line("3", "1", "user", "b"),
        model("4", "3", "m", text("c")),
    ]
    circle[0]["parentUuid"] = "3"
    for request in requests(tmp_path, circle[1], circle[0], circle[2]):
        assert len(request.messages) <= 2
