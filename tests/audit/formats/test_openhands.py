"""Are the requests of OpenHands' events those that its agent sent?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvagent.audit.formats import read
from kvagent.audit.transcript import Reported, Request
from tests.audit.formats.files import CALL, SYSTEM, TOOL, USER, items, requests, roles, unreadable

Event = dict[str, Any]


def event(id: int, **more: Any) -> Event:
    return {"id": id, "timestamp": "2026-01-01T12:00:00", "source": "agent", **more}


def metadata(answer: str, call: str, calls: list[Any]) -> Event:
    message = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": calls,
        "function_call": None,
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 5}
    response = {"id": answer, "model": "m", "choices": [{"message": message}], "usage": usage}
    return {"tool_call_id": call, "model_response": response}


ONE = metadata("r1", "call_1", CALL["tool_calls"])  # type: ignore[arg-type]
EVENTS = [
    event(0, action="system", args={"content": SYSTEM["content"], "tools": [TOOL]}),
    event(1, action="message", source="user", args={"content": USER["content"]}),
    event(2, action="recall", source="user", args={"query": "x"}),
    event(3, observation="recall", source="environment", content="Added workspace context"),
    event(4, action="run", args={"command": "ls"}, tool_call_metadata=ONE),
    event(5, observation="run", content="a.py", cause=4, tool_call_metadata=ONE),
    event(6, observation="error", content="No such tool."),
    event(7, action="message", args={"content": "One."}),
]


def test_a_history(tmp_path: Path) -> None:
    first, second = requests(tmp_path, EVENTS)
    assert (roles(first), roles(second)) == ("su", "suatu")
    assert first.tools == [TOOL]
    assert first.reported == Reported(100, None, 5)
    assert second.messages[2] == first.replies[0]
    assert second.messages[3] == {"role": "tool", "tool_call_id": "call_1", "content": "a.py"}
    assert second.messages[4] == {"role": "user", "content": "No such tool."}
    assert second.replies[0]["content"] == "One."
    assert first.complete == {"system", "tools"}
    assert first.place.path == "[4]"


def test_an_event_a_line(tmp_path: Path) -> None:
    first, second = requests(tmp_path, *EVENTS)
    assert (roles(first), roles(second)) == ("su", "suatu")
    assert (first.place.line, second.place.line) == (5, 8)


def test_an_evaluation_has_a_run_a_line(tmp_path: Path) -> None:
    usages = [{"response_id": "r1", "prompt_tokens": 100, "cache_read_tokens": 60}]
    run = {"instance_id": "i", "history": EVENTS, "metrics": {"token_usages": usages}}
    pairs = {"instance_id": "j", "history": [EVENTS[:2], EVENTS[4:6], EVENTS[6:]]}
    found = requests(tmp_path, run, pairs)
    assert [each.conversation for each in found] == ["i", "i", "j", "j"]
    assert found[0].reported == Reported(100, 60, 5)
    assert found[0].place.path == ".history[4]"
    assert [roles(each) for each in found] == ["su", "suatu", "su", "suatu"]


def test_one_answer_may_call_for_several_actions(tmp_path: Path) -> None:
    two = metadata("r1", "call_2", CALL["tool_calls"])  # type: ignore[arg-type]
    more = [
        event(8, action="run", tool_call_metadata=two),
        event(9, observation="run", content="b", tool_call_metadata=two),
    ]
    found = requests(tmp_path, [*EVENTS[:6], *more, EVENTS[7]])
    assert [roles(each) for each in found] == ["su", "suatt"]


def test_what_was_forgotten_is_not_sent(tmp_path: Path) -> None:
    condensed = event(8, action="condensation", args={"forgotten_event_ids": [4, 5]})
    summed = event(
        8,
        action="condensation",
        args={
            "forgotten_events_start_id": 1,
            "forgotten_events_end_id": 6,
            "summary": "One file.",
            "summary_offset": 1,
        },
    )
    more = event(9, action="message", args={"content": "On."})
    *_, last = requests(tmp_path, [*EVENTS, condensed, more])
    assert roles(last) == "suua"
    assert last.departs == "compaction"
    *_, last = requests(tmp_path, [*EVENTS, summed, more])
    assert [each["content"] for each in last.messages] == [SYSTEM["content"], "One file.", "One."]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    found = items(tmp_path, [*EVENTS, 7], [{"history": EVENTS}, 8], "x")
    assert len(unreadable(found)) == 3
    assert len([each for each in found if isinstance(each, Request)]) == 4
    assert list(read(tmp_path / "file", "openhands"))
