"""What is a recording that `kvagent rewrite` is run on, and what does the command say to it?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from kvagent import Engine
from kvagent.cli import main

COMMAND = [sys.executable, "-c", "from kvagent.cli import main; main()", "rewrite"]


def request(turn: int, clock: str) -> dict[str, Any]:
    """The nth request of a conversation whose system prompt bears a clock."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": f"You help.\nCurrent time: {clock}"},
        {"role": "user", "content": "Hello"},
    ]
    for at in range(1, turn):
        messages.append({"role": "assistant", "content": f"answer {at}"})
        messages.append({"role": "user", "content": f"question {at} — more"})
    return {"model": "m", "messages": messages, "temperature": 0.5}


def line(turn: int, **keys: Any) -> bytes:
    body = request(turn, f"2026-03-02 09:00:0{turn}")
    return json.dumps({**keys, "body": body} if keys else body).encode() + b"\n"


SESSION = b"".join(map(line, range(1, 5)))


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["rewrite", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refused(*arguments: str, stdin: bytes | None = None) -> str:
    """What the command says when it ends with status 2; nothing may be written."""
    before = {path: path.read_bytes() for path in Path.cwd().iterdir() if path.is_file()}
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert {path: path.read_bytes() for path in Path.cwd().iterdir() if path.is_file()} == before
    return result.stderr


def by_engine(recording: bytes) -> bytes:
    """The recording as the engine rewrites it: what the command is to be compared with."""
    engine = Engine()
    return b"".join(
        engine.rewrite(body.rstrip()) + b"\n" for body in recording.splitlines(keepends=True)
    )
