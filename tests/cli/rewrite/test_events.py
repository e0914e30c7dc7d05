"""What is told of the requests, line by line and in sum, and is no prompt in it?"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.rewrite.recordings import SESSION, run


def test_events_name_line_and_cause_and_hold_no_prompt(folder: Path) -> None:
    recording = b"\n" + SESSION + b'{"messages":[{"role":"user"},5]}\n'
    assert run("-", "-o", "out.jsonl", "--events", "events.jsonl", stdin=recording).exit_code == 0
    events = [json.loads(text) for text in (folder / "events.jsonl").read_text().splitlines()]
    assert [event["line"] for event in events] == [2, 3, 4, 5, 6]
    assert [event["event"] for event in events] == ["Edited"] * 4 + ["Bypassed"]
    assert {event["cause"] for event in events[:4]} == {"volatile_text"}
    assert events[4]["reason"] == "message 1 is not an object with a role"
    assert "question" not in (folder / "events.jsonl").read_text()


def test_events_on_standard_output(folder: Path) -> None:
    result = run("in.jsonl", "-o", "out.jsonl", "--events", "-")
    assert [json.loads(text)["line"] for text in result.stdout.splitlines()] == [1, 2, 3, 4]


def test_a_break_is_told(folder: Path) -> None:
    first = {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    }
    second = json.loads(json.dumps(first))
    second["messages"][0]["content"] = "Be long."
    second["messages"].append({"role": "assistant", "content": "Hello"})
    recording = json.dumps(first) + "\n" + json.dumps(second)
    result = run("-", "-o", "out", "--events", "-", "-v", stdin=recording.encode())
    assert '"line":2,"event":"PrefixBroken"' in result.stdout
    assert "2 requests, 0 edited, 1 prefix breaks" in result.stderr


def test_a_summary_only_when_asked_for(folder: Path) -> None:
    assert run("in.jsonl", "-o", "out.jsonl").stderr == ""
    summary = run("in.jsonl", "-o", "out.jsonl", "-v").stderr
    assert summary.startswith("4 requests, 4 edited, 0 prefix breaks, some ")
