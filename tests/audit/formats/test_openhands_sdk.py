"""Are the requests behind events of OpenHands' SDK those that its agent sent?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.audit.formats.files import CALL, RESULT, SYSTEM, USER, items, requests, roles, unreadable

Event = dict[str, Any]


def text(text: Any) -> Event:
    return {"type": "text", "text": text}


def act(id: str, call: str, answer: str) -> Event:
    return {
        "id": id,
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [],
        "tool_name": "ls",
        "tool_call_id": call,
        "tool_call": {"id": call, "name": "ls", "arguments": "{}"},
        "llm_response_id": answer,
        "timestamp": "2026-01-01T12:00:00",
    }


def result(id: str, call: str, said: str = "a.py") -> Event:
    observed = {"content": [text(said)]}
    return {"id": id, "kind": "ObservationEvent", "tool_call_id": call, "observation": observed}


def message(id: str, role: str, said: Any) -> Event:
    return {
        "id": id,
        "kind": "MessageEvent",
        "llm_message": {"role": role, "content": [text(said)]},
    }


EVENTS = [
    {"id": "0", "kind": "SystemPromptEvent", "system_prompt": text(SYSTEM["content"]), "tools": []},
    message("1", "user", USER["content"]),
    {"id": "x", "kind": "ConversationStateUpdateEvent"},
    act("2", "call_1", "r1"),
    result("3", "call_1"),
    message("4", "assistant", "One."),
]


def test_a_run(tmp_path: Path) -> None:
    for values in (
        [EVENTS],
        EVENTS,
        [{"instance_id": "i", "history": EVENTS}],
        [{"events": EVENTS}],
    ):
        first, second = requests(tmp_path, *values)
        assert list(first.messages) == [SYSTEM, USER]
        assert dict(first.replies[0]) == {**CALL, "content": ""}
        assert list(second.messages)[3] == RESULT
        assert second.replies[0]["content"] == "One."
        assert first.complete == {"system"}
        assert first.unrolled


def test_calls_of_one_answer_are_one_message(tmp_path: Path) -> None:
    two = [act("5", "call_2", "r1"), EVENTS[4], result("6", "call_2")]
    first, second = requests(tmp_path, [*EVENTS[:4], *two, EVENTS[5]])
    assert len(first.replies[0]["tool_calls"]) == 2
    assert roles(second) == "suatt"


def test_answers_without_an_id_are_apart(tmp_path: Path) -> None:
    acts = [{**act(str(n), f"call_{n}", ""), "llm_response_id": None} for n in range(5, 7)]
    found = requests(tmp_path, [*EVENTS[:2], *acts])
    assert [roles(each) for each in found] == ["su", "sua"]


def test_what_was_forgotten_is_not_sent(tmp_path: Path) -> None:
    condensed = {
        "id": "7",
        "kind": "Condensation",
        "forgotten_event_ids": ["1", "2", "3"],
        "summary": "One file.",
        "summary_offset": 1,
    }
    *_, last = requests(tmp_path, [*EVENTS, condensed, act("8", "call_3", "r2")])
    assert [each["content"] for each in last.messages] == [SYSTEM["content"], "One file.", "One."]
    assert last.departs == "compaction"


def test_refusals_and_errors_are_results(tmp_path: Path) -> None:
    refused = {"kind": "UserRejectObservation", "tool_call_id": "call_1", "rejection_reason": "no"}
    error = {"kind": "AgentErrorEvent", "tool_call_id": "call_2", "error": "no such tool"}
    *_, last = requests(tmp_path, [*EVENTS[:4], refused, error, EVENTS[5]])
    assert [each["content"] for each in last.messages[3:]] == [
        "Action rejected: no",
        "no such tool",
    ]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    found = items(tmp_path, [*EVENTS, 7, {"kind": 8}])
    assert len(unreadable(found)) == 2
    assert len(found) == 4
