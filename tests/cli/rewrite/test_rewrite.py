"""Does `kvagent rewrite` write what would have gone out, and let through what it cannot change?"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kvagent import Engine
from tests.cli.rewrite.recordings import COMMAND, SESSION, by_engine, line, run


def test_what_would_have_gone_out(folder: Path) -> None:
    result = run("in.jsonl", "-o", "out.jsonl")
    assert (result.exit_code, result.output) == (0, "")
    written = (folder / "out.jsonl").read_bytes()
    assert written == by_engine(SESSION)
    heads = {json.dumps(json.loads(body)["messages"][0]) for body in written.splitlines()}
    assert len(heads) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_standard_input_and_output(folder: Path) -> None:
    for arguments in (["-"], ["-", "-o", "-"], ["in.jsonl"]):
        result = run(*arguments, stdin=SESSION)
        assert result.stdout_bytes == by_engine(SESSION)


def test_out_may_be_the_recording_itself(folder: Path) -> None:
    assert run("in.jsonl", "--out", "in.jsonl").exit_code == 0
    assert (folder / "in.jsonl").read_bytes() == by_engine(SESSION)


def test_wrapped_requests_keep_their_other_keys(folder: Path) -> None:
    recording = b"".join(line(turn, at=turn, path="/v1/chat") for turn in range(1, 5))
    result = run("-", stdin=recording)
    bare = by_engine(SESSION).splitlines()
    for turn, (written, body) in enumerate(zip(result.stdout.splitlines(), bare, strict=True), 1):
        wrapper = json.loads(written)
        assert wrapper == {"at": turn, "path": "/v1/chat", "body": json.loads(body)}
        assert body in written.encode()


def test_lines_keep_their_places(folder: Path) -> None:
    """Blank lines, line ends and a missing last one stay, so that line numbers mean the same."""
    one, two = line(1).rstrip(), line(2).rstrip()
    first, second = by_engine(one + b"\n" + two).splitlines()
    result = run("-", stdin=b"\n" + one + b"\r\n \n" + two)
    assert result.stdout_bytes == b"\n" + first + b"\r\n \n" + second


def test_what_kvagent_would_not_change_is_not_touched(folder: Path) -> None:
    recording = b'  { "messages" : [ {"role": "user", "content": "caf\\u00e9"} ], "seed": 1.0e2 }\n'
    assert run("-", stdin=recording).stdout_bytes == recording


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="the system has no /dev/stdout")
def test_a_pipe_by_its_device(folder: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "/dev/stdin", "-o", "/dev/stdout"],
        input=SESSION,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == by_engine(SESSION)


def test_a_request_that_kvagent_lets_through_is_named(folder: Path) -> None:
    odd = b'{"messages":[{"role":"user","content":"hi"},{"content":"no role"}]}\n'
    result = run("-", stdin=odd + SESSION)
    assert result.exit_code == 0
    assert result.stdout_bytes == odd + by_engine(SESSION)
    assert result.stderr == ("line 1 goes out as it came: message 1 is not an object with a role\n")


def test_an_error_inside_kvagent_lets_the_request_through(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Engine, body: bytes) -> bytes:
        raise KeyError("Hello")

    monkeypatch.setattr(Engine, "rewrite", fail)
    result = run("in.jsonl", "--events", "events.jsonl")
    assert (result.exit_code, result.stdout_bytes) == (0, SESSION)
    assert "line 1 goes out as it came: an error inside kvagent, KeyError in " in result.stderr
    assert "Traceback" not in result.stderr
    events = (folder / "events.jsonl").read_text()
    assert "Hello" not in events
    assert "KeyError in test_rewrite.py" in events
    assert "Traceback" in run("in.jsonl", "--verbose").stderr
