"""Is what cannot be read named, and everything else audited all the same?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.audit.auditing import COMMAND, log, refused, run


def test_one_that_cannot_be_read_does_not_lose_the_others(folder: Path) -> None:
    (folder / "notes.txt").write_text("to do")
    result = run("clean.jsonl", "notes.txt", "none.jsonl", "--output-format", "json")
    told = json.loads(result.stdout)
    assert [session["file"] for session in told["sessions"]] == ["clean.jsonl"]
    assert [failed["file"] for failed in told["failed"]] == ["notes.txt", "none.jsonl"]
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [f"kvagent audit: {f['why']}" for f in told["failed"]]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are texts")
@pytest.mark.parametrize("form", ["json", "html", "md", "sarif", "github", "terminal"])
def test_a_file_may_have_any_name(folder: Path, form: str) -> None:
    if form == "html":
        pytest.importorskip("jinja2", reason="needs the extra `audit`")
    name = "bad\udcff\x1b[31m\n.jsonl"
    Path(name).write_bytes(log(clock=True))
    done = subprocess.run(
        [*COMMAND, name, f"{name}.gz", "--no-what-if", "--output-format", form],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"KVA101" in done.stdout
    assert done.stderr.decode() == (
        "kvagent audit: bad⟨U+DCFF⟩⟨U+001B⟩[31m .jsonl.gz cannot be read: No such file or directory.\n"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "looks like an empty file"),
        (b"\x00\x01\x02\xff" * 99, "looks like binary data"),
        (b"\x89PNG\r\n\x1a\n", "looks like a PNG picture"),
        (b"{}", "looks like an empty object"),
        (b"[]", "looks like an empty list"),
        (b'{"messages": [', "JSON that cannot be read"),
        (b"\x1f\x8b\x08\x00cut", "looks like"),
    ],
)
def test_what_is_no_transcript(folder: Path, content: bytes, said: str) -> None:
    (folder / "file").write_bytes(content)
    stderr = refused("file")
    assert stderr.startswith("kvagent audit: file is no transcript: it ")
    assert said in stderr


def test_nothing_to_read(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "none").mkdir()
    (folder / "none/notes.txt").write_text("to do")
    assert "there is no transcript in empty" in refused("empty")
    assert "standard input is no transcript: it looks like text" in refused("-", stdin=b"to do")
    assert "1 file is no transcript: none/notes.txt" in refused("none")
    assert "cannot be read: No such file or directory" in refused("nowhere")
    assert "none of 2 files can be read; the first: nowhere" in refused("nowhere", "nobody")


def test_a_fault_inside_does_not_lose_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvagent.audit.rules.prefix import Prefix

    look = Prefix.turn

    def broken(self: Prefix, turn: Any) -> Any:
        if turn.place.file == "clock.jsonl":
            raise KeyError("a secret of the prompt")
        return look(self, turn)

    monkeypatch.setattr(Prefix, "turn", broken)
    result = run("clock.jsonl", "clean.jsonl", "--output-format", "json", "--no-what-if")
    assert [each["file"] for each in json.loads(result.stdout)["sessions"]] == ["clean.jsonl"]
    assert result.exit_code == 2
    assert "clock.jsonl is not audited: an error inside kvagent, KeyError in" in result.stderr
    assert "secret" not in result.stderr
