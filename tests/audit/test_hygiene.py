"""Does a test fail for what an agent sent, and is its author told what to do?"""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from kvagent.audit.hygiene import audited
from kvagent.audit.settings import Settings, SettingsError
from kvagent.testing import Recorder

STEPS = "Read what you are asked about before you answer. " * 40


def sent(turns: int = 4, *, clock: bool = False, **more: Any) -> list[dict[str, Any]]:
    """The requests of an agent that may tell the time in its system prompt."""
    bodies = []
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        now = f"Current time: 2026-01-02 03:04:{turn:02}\n" if clock else ""
        messages.append({"role": "user", "content": f"Question {turn}: {STEPS}"})
        system = {"role": "system", "content": f"You are careful.\n{now}{STEPS}"}
        bodies.append({"model": "m", "messages": [system, *messages], **more})
        messages.append({"role": "assistant", "content": f"Answer {turn}."})
    return bodies


def test_an_agent_that_keeps_its_prefix_passes(tmp_path: Path) -> None:
    report = audited(sent(), tmp_path)
    (session,) = report.sessions
    assert session.requests == 4
    assert session.totals.hit_rate is not None
    assert session.totals.hit_rate > 0.5
    assert session.file == str(tmp_path / "requests.jsonl")


def test_one_that_tells_the_time_fails_and_is_told_where_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as raised:
        audited(sent(clock=True), tmp_path)
    lines = str(raised.value).split("\n")
    path = tmp_path / "requests.jsonl"
    assert lines[0].startswith("fail-on error: ")
    assert "KVA101 clock-in-head (error): " in lines[2]
    assert lines[3].startswith(f"  {path}:2 .messages · turn 2 · message 0 · content · character ")
    assert lines[4] == "  before: Current time: 2026-01-02 03:04:00"
    assert lines[5] == "   after: Current time: 2026-01-02 03:04:01"
    assert lines[6].index("^") == lines[4].index("00", 30) + 1
    assert "Seen 3 times" in lines[7]
    assert lines[8].startswith("  Fix: ")
    assert lines[-1] == f"All of it: kvagent audit {path}"


@pytest.mark.parametrize("form", ["dicts", "texts", "bytes", "mappings", "printed", "recorder"])
def test_requests_of_any_form(form: str, tmp_path: Path) -> None:
    bodies = sent(clock=True)
    recorder = Recorder()
    for body in bodies:
        recorder.record(json.dumps(body).encode())
    recorded: dict[str, Any] = {
        "dicts": bodies,
        "texts": map(json.dumps, bodies),
        "bytes": [json.dumps(body).encode() for body in bodies],
        "mappings": (MappingProxyType(body) for body in bodies),
        "printed": [json.dumps(body, indent=2) for body in bodies],
        "recorder": recorder,
    }
    with pytest.raises(AssertionError, match="KVA101"):
        audited(recorded[form], tmp_path)


@pytest.mark.parametrize("as_text", [True, False])
def test_a_file(as_text: bool, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{json.dumps(body)}\n" for body in sent(clock=True)))
    with pytest.raises(AssertionError, match=r"log\.jsonl:2 "):
        audited(str(path) if as_text else path, tmp_path)
    assert list(tmp_path.iterdir()) == [path], "nothing else is written"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ignore": "KVA101"}, None),
        ({"select": "KVA2"}, None),
        ({"select": "clock-in-head"}, "fail-on clock-in-head: 1 finding"),
        ({"fail_on": "KVA5"}, None),
        ({"min_hit_rate": "1%"}, "fail-on error"),
        ({"min_hit_rate": 0.99, "ignore": ["KVA101"]}, "min-hit-rate 99%: The hit rate is"),
        ({"max_prompt_tokens": 10, "ignore": ["KVA1"]}, "max-prompt-tokens 10: "),
        ({"max_prompt_tokens": 10**6, "min_hit_rate": "0%", "ignore": ["KVA1"]}, None),
    ],
)
def test_what_is_asked(asked: dict[str, Any], said: str | None, tmp_path: Path) -> None:
    if said is None:
        audited(sent(clock=True), tmp_path, **asked)
        return
    with pytest.raises(AssertionError, match=said):
        audited(sent(clock=True), tmp_path, **asked)


def test_settings_hold_unless_they_are_given(tmp_path: Path) -> None:
    settings = Settings(ignore=("KVA101",), baseline="none.json")
    audited(sent(clock=True), tmp_path, settings)
    with pytest.raises(AssertionError):
        audited(sent(clock=True), tmp_path, settings, ignore=())


def test_only_what_fails_is_told_at_length(tmp_path: Path) -> None:
    bodies = [{**body, "tools": [tool(name) for name in "ab"]} for body in sent(clock=True)]
    with pytest.raises(AssertionError) as raised:
        audited(bodies, tmp_path, fail_on="KVA101")
    assert str(raised.value).count("Fix: ") == 1


def tool(name: str) -> dict[str, Any]:
    function = {"name": name, "description": STEPS, "parameters": {"type": "object"}}
    return {"type": "function", "function": function}


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ([], "there is no request to audit"),
        (Recorder(), "there is no request to audit"),
        (["{"], "request 1 is not JSON"),
        ([{"messages": []}, "[]"], "request 2 is no object"),
        ([{"messages": {1, 2}}], "request 1 is not JSON"),
        ([*sent(2), {"messages": []}], "request 3 "),
        ([{"model": "m"}, *sent(2)], "request 1 "),
        ("none.jsonl", "none.jsonl"),
    ],
)
def test_what_is_no_recording_is_no_pass(recorded: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        audited(recorded, tmp_path)


def test_a_folder_without_transcripts_is_no_pass(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Nothing was recorded.")
    with pytest.raises(ValueError, match="there is no request to audit"):
        audited(tmp_path, tmp_path)


def test_what_a_log_has_besides_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{json.dumps(body)}\n" for body in [*sent(), {"other": 1}]))
    assert audited(path, tmp_path).sessions[0].unreadable_count == 1


def test_a_rule_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="KVA999"):
        audited(sent(), tmp_path, select="KVA999")


def test_audits_of_one_test_have_files_of_their_own(tmp_path: Path) -> None:
    first, second = audited(sent(2), tmp_path), audited(sent(3), tmp_path)
    assert [each.sessions[0].requests for each in (first, second)] == [2, 3]
    assert len(list(tmp_path.iterdir())) == 2
