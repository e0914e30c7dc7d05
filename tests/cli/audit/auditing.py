"""Which logs is `kvagent audit` run on in its tests, and what did it report?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from kvagent.cli import main

COMMAND = [sys.executable, "-c", "from kvagent.cli import main; main()", "audit"]
SYSTEM = "You are a careful agent who reads files and answers in short sentences. " * 30


def body(turn: int, system: str = SYSTEM) -> dict[str, Any]:
    """The nth request of a conversation that only grows."""
    messages = [{"role": "system", "content": system}]
    for at in range(turn):
        messages.append({"role": "user", "content": f"question {at} — more"})
        messages.append({"role": "assistant", "content": f"answer {at}"})
    return {"model": "m", "messages": messages[:-1]}


def log(turns: int = 4, clock: bool = False) -> bytes:
    """A log of requests; with a clock, each breaks the prefix at its beginning."""
    lines = []
    for turn in range(1, turns + 1):
        time_of_day = f"Current time: 2026-03-02 09:00:0{turn}\n" if clock else ""
        lines.append(json.dumps({"body": body(turn, time_of_day + SYSTEM)}) + "\n")
    return "".join(lines).encode()


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["audit", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refused(*arguments: str, stdin: bytes | None = None) -> str:
    """What the command says when it ends with status 2 and tells nothing; nothing may be written."""
    before = {path: path.read_bytes() for path in Path.cwd().rglob("*") if path.is_file()}
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in Path.cwd().rglob("*") if path.is_file()} == before
    return result.stderr


def report(*arguments: str, status: int = 0, stdin: bytes | None = None) -> dict[str, Any]:
    """The report as JSON."""
    result = run(*arguments, "--output-format", "json", stdin=stdin)
    assert result.exit_code == status, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def codes(session: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in session["findings"]}
