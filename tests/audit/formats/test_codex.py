"""Are the requests of a rollout those that Codex sent?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import items, requests, roles, unreadable

Line = dict[str, Any]


def line(kind: str, **payload: Any) -> Line:
    return {"timestamp": "2026-01-01T12:00:00Z", "type": kind, "payload": payload}


def item(type: str, **more: Any) -> Line:
    return line("response_item", type=type, **more)


def said(role: str, text: str) -> Line:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


def counted(prompt: int, cached: int, total: int) -> Line:
    last = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": 9}
    info = {"total_token_usage": {"input_tokens": total}, "last_token_usage": last}
    return line("event_msg", type="token_count", info=info)


CALL = item("function_call", name="ls", arguments="{}", call_id="a")
RESULT = item("function_call_output", call_id="a", output="a.py")
META = line("session_meta", id="s", base_instructions={"text": "Be brief."})
TURN = line("turn_context", model="gpt", effort="low")
ASKED = line("event_msg", type="user_message", message="Look.")
SESSION = [
    META,
    said("developer", "Ask first."),
    said("user", "Look."),
    TURN,
    ASKED,
    item("reasoning", summary=[], encrypted_content="x"),
    said("assistant", "I look."),
    CALL,
    counted(100, 0, 100),
    RESULT,
    said("assistant", "One."),
    counted(150, 96, 250),
]


def test_a_call_is_what_was_made_up_to_its_counts(tmp_path: Path) -> None:
    first, second = requests(tmp_path, *SESSION)
    assert (roles(first), roles(second)) == ("sdu", "sduat")
    assert first.replies[0]["content"] == "I look."
    assert first.replies[0]["tool_calls"][0]["id"] == "a"
    assert second.messages[3] == first.replies[0]
    assert [first.reported, second.reported] == [Reported(100, 0, 9), Reported(150, 96, 9)]
    assert (first.conversation, first.options["model"]) == ("s", "gpt")
    assert first.complete == {"system"}
    assert first.unrolled
    assert first.place.line == 6


def test_counts_that_come_again_are_counted_once(tmp_path: Path) -> None:
    again = [counted(150, 96, 250), line("event_msg", type="token_count", info=None)]
    found = requests(tmp_path, *SESSION, *again, said("user", "More."), said("assistant", "No."))
    assert [each.reported.prompt_tokens for each in found] == [100, 150, None]


def test_counts_behind_the_result_are_those_of_the_call(tmp_path: Path) -> None:
    late = [*SESSION[:8], RESULT, counted(100, 0, 100), *SESSION[10:]]
    first, second = requests(tmp_path, *late)
    assert [first.reported.prompt_tokens, second.reported.prompt_tokens] == [100, 150]
    assert roles(second) == "sduat"


def test_a_rollout_without_counts(tmp_path: Path) -> None:
    plain = [each for each in SESSION if each["payload"].get("type") != "token_count"]
    assert [roles(each) for each in requests(tmp_path, *plain)] == ["sdu", "sduat"]


def test_a_compaction_replaces_what_came_before(tmp_path: Path) -> None:
    more = [said("user", "More."), said("assistant", "On.")]
    *_, kept = requests(tmp_path, *SESSION, line("compacted", message="One file."), *more)
    texts = [message["content"] for message in kept.messages]
    assert texts == ["Be brief.", "Ask first.", "Look.", "One file.", "More."]
    history = [said("user", "Look.")["payload"], {"type": "compaction", "encrypted_content": "xyz"}]
    new = line("compacted", message="", replacement_history=history)
    *_, kept = requests(tmp_path, *SESSION, new, *more)
    assert [m["content"] for m in kept.messages] == ["Be brief.", "Look.", "xyz", "More."]
    assert kept.departs == "compaction"


def test_a_turn_that_was_taken_back_is_gone(tmp_path: Path) -> None:
    back = line("event_msg", type="thread_rolled_back", num_turns=1)
    *_, last = requests(tmp_path, *SESSION, back, said("user", "Else."), said("assistant", "On."))
    assert [m["content"] for m in last.messages] == ["Be brief.", "Ask first.", "Else."]
    assert last.departs == "branch"


def test_an_error_is_told(tmp_path: Path) -> None:
    *_, last = requests(tmp_path, *SESSION, line("event_msg", type="error", message="too long"))
    assert last.error == "too long"
    assert roles(last) == "sduata"


def test_the_first_versions_had_bare_items(tmp_path: Path) -> None:
    bare = [each["payload"] for each in SESSION if each["type"] == "response_item"]
    first, second = requests(
        tmp_path, {"id": "s", "instructions": "Be brief."}, *bare, format="codex"
    )
    assert (roles(first), roles(second)) == ("sdu", "sduat")


def test_lines_that_cannot_be_read(tmp_path: Path) -> None:
    found = items(tmp_path, *SESSION, item("message", role=7, content=[]))
    assert len(unreadable(found)) == 1
    assert len(found) == 3
