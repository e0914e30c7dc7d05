"""Are files that hold one request each read as the log that they are?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.files import files_of
from kvagent.audit.loose import logs_of
from kvagent.audit.run import audit_files
from kvagent.audit.settings import Settings

QUIET = Settings(what_if=False)


def record(turn: int, **keys: Any) -> str:
    """The nth call of a conversation that only grows, as a proxy writes it down."""
    said = {"role": "assistant", "content": f"answer {turn - 1}"}
    answer = {"object": "chat.completion", "choices": [{"index": 0, "message": said}]}
    return json.dumps({**keys, "request": body(turn), "response": answer})


def body(turn: int) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You help people who read logs. " * 9}]
    for at in range(turn):
        messages.append({"role": "user", "content": f"question {at}"})
        messages.append({"role": "assistant", "content": f"answer {at}"})
    return {"model": "m", "messages": messages[:-1]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a request a file in `logs`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    for turn in range(1, 12):
        (tmp_path / f"logs/call-{turn}.json").write_text(record(turn))
    return tmp_path


def names(*sources: str) -> list[tuple[str, int]]:
    return [(log.name, len(log.files)) for log in logs_of(files_of(sources))]


def test_they_are_one_log_in_the_order_of_their_numbers(folder: Path) -> None:
    assert names("logs") == [("logs/*.json", 11)]
    (session,) = audit_files(["logs"], QUIET).sessions
    assert session.file == "logs/*.json"
    assert (session.requests, session.conversations) == (11, 1)
    assert [row.place.file for row in session.rows] == [f"logs/call-{n}.json" for n in range(1, 12)]
    assert [row.kind for row in session.rows] == ["first", *["grown"] * 10]
    assert any(note.startswith("11 files with one request each") for note in session.notes)


def test_it_does_not_matter_how_they_are_named(folder: Path) -> None:
    by_shell = sorted(str(path) for path in Path("logs").iterdir())
    assert names(*by_shell) == [("logs/*.json", 11)]
    assert names(by_shell[0]) == [(by_shell[0], 1)]


def test_the_times_in_a_log_go_before_names(folder: Path) -> None:
    for turn in range(1, 12):
        text = record(turn, timestamp=1_700_000_000 - turn)
        (folder / f"logs/call-{turn}.json").write_text(text)
    (log,) = logs_of(files_of(["logs"]))
    rows = audit_files(["logs"], QUIET).sessions[0].rows
    assert rows[0].time_s is not None
    assert [row.time_s for row in rows] == sorted(row.time_s or 0 for row in rows)
    assert log.files[0].path == "logs/call-11.json"


def test_requests_without_answers_are_one_log_where_they_continue_each_other(
    folder: Path,
) -> None:
    """By itself, such a file may as well be the session of an agent."""
    (folder / "dumps").mkdir()
    for turn in (1, 2, 3, 5):
        (folder / f"dumps/{turn}.json").write_text(json.dumps(body(turn)))
    messages = [{"role": "user", "content": text} for text in ("Something else.", "x")]
    messages.insert(1, body(3)["messages"][2])
    stranger = {"model": "m", "messages": messages}
    (folder / "dumps/other.json").write_text(json.dumps(stranger))
    assert names("dumps") == [("dumps/*.json", 4), ("dumps/other.json", 1)]
    one, other = audit_files(["dumps"], QUIET).sessions
    assert [row.messages for row in one.rows] == [2, 4, 6, 10]
    assert [row.kind for row in one.rows] == ["first", *["grown"] * 3]
    assert (one.conversations, other.requests) == (1, 2)
    # The head is what may be at fault.
    for turn in (1, 2, 3, 5):
        sent = body(turn)
        sent["messages"][0]["content"] += f"Current time: 09:00:0{turn}"
        (folder / f"dumps/{turn}.json").write_text(json.dumps(sent))
    one, other = audit_files(["dumps"], QUIET).sessions
    assert "KVA101" in {finding.rule.code for finding in one.findings}


def test_others_stay_apart(folder: Path) -> None:
    (folder / "logs/two.jsonl").write_text("".join(json.dumps(body(n)) + "\n" for n in (1, 2)))
    (folder / "logs/session.json").write_text(json.dumps(body(5)["messages"]))
    (folder / "logs/notes.txt").write_text("not a transcript")
    (folder / "other").mkdir()
    (folder / "other/call-12.json").write_text(record(12))
    assert names("logs", "other") == [
        ("logs/*.json", 11),
        ("logs/notes.txt", 1),
        ("logs/session.json", 1),
        ("logs/two.jsonl", 1),
        ("other/call-12.json", 1),
    ]


def test_real_requests_of_litellm(shared: Path) -> None:
    """Their own counts say what was sent; nothing of it was cached."""
    (session,) = audit_files([shared / "data/openhands_litellm_sonnet4"], QUIET).sessions
    assert (session.requests, session.conversations) == (6, 1)
    assert session.totals.reported_hit_rate == 0
    assert [row.kind for row in session.rows] == ["first", *["grown"] * 5]
    assert session.totals.wasted_tokens == 0
