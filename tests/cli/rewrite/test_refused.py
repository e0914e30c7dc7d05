"""Is what cannot be done said in a sentence, with nothing written?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kvagent.cli.rewrite import _BROKEN_LINES_SAID
from tests.cli.rewrite.recordings import line, refused, run


@pytest.mark.parametrize("recording", [b"", b"\n\r\n \t\n"])
def test_a_recording_without_a_request(folder: Path, recording: bytes) -> None:
    (folder / "in.jsonl").write_bytes(recording)
    said = "holds no request, nothing was written\n"
    assert refused("in.jsonl", "-o", "out.jsonl") == f"kvagent rewrite: in.jsonl {said}"
    assert refused("in.jsonl", "-o", "in.jsonl") == f"kvagent rewrite: in.jsonl {said}"
    assert refused("-", stdin=recording) == f"kvagent rewrite: standard input {said}"


@pytest.mark.parametrize("document", [{"messages": []}, [{"messages": []}]])
def test_a_document_over_many_lines_is_named_once(folder: Path, document: object) -> None:
    (folder / "in.json").write_text(json.dumps(document, indent=1))
    result = run("in.json", "-o", "out.jsonl")
    assert result.exit_code == 2
    assert "one JSON document over many lines" in result.stderr
    assert "jq -c" in result.stderr
    assert not (folder / "out.jsonl").exists()


def test_broken_lines_are_named_and_nothing_is_written(folder: Path) -> None:
    (folder / "out.jsonl").write_bytes(b"old")
    broken = line(1) + b"{oops\n\n[1]\n" + line(2) + b'{"prompt":"x"}\n\xff\n'
    for arguments in (["-"], ["-", "-o", "out.jsonl", "--events", "e"]):
        assert refused(*arguments, stdin=broken).splitlines() == [
            "line 2 is not JSON: Expecting property name enclosed in double quotes at character 2",
            "line 4 is a list, not an object",
            'line 6 is not a chat request: it has no list of "messages"',
            "line 7 is not UTF-8: byte 0xff at 1",
            "kvagent rewrite: 4 broken lines, nothing was written",
        ]
    assert refused("-", stdin=b"x").endswith("one broken line, nothing was written\n")


def test_the_wrong_file_is_not_read_to_its_end(folder: Path) -> None:
    said = refused("-", "-o", "out.jsonl", stdin=b"{x\n" * 1000).splitlines()
    assert len(said) == _BROKEN_LINES_SAID + 1
    assert "stopped after 20 broken lines" in said[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.jsonl"], "cannot read none.jsonl: No such file"),
        (["."], "cannot read .: Is a directory"),
        (["in.jsonl", "-o", "."], "cannot write .: it is a folder"),
        (["in.jsonl", "-o", "none/out"], "cannot write none/out: there is no folder"),
        (["in.jsonl", "-o", "in.jsonl/out"], "cannot write in.jsonl/out"),
        (["in.jsonl", "--events", "none/out"], "cannot write none/out: there is no folder"),
        (["in.jsonl", "--policy", "none"], "cannot read the policy none: No such file"),
        (["in.jsonl", "--policy", "in.jsonl"], "the policy in.jsonl is not JSON"),
        (["in.jsonl", "--set", "clear"], "--set clear: write NAME=VALUE, such as clear.keep=5"),
        (["in.jsonl", "--set", "=5"], "--set =5: write NAME=VALUE"),
        (["in.jsonl", "--set", "clear..keep=5"], "--set clear..keep=5: write NAME=VALUE"),
        (["in.jsonl", "--set", "clear.keep=x"], "clear.keep should be a valid integer"),
        (["in.jsonl", "--set", "clear.kep=5"], "clear.kep is no setting, was clear.keep meant?"),
        (["in.jsonl", "--set", "clear=5"], 'clear should be a table of settings, or "off", not 5'),
        (["in.jsonl", "--set", "evict.exclude_tools=f"], 'should be a list like ["a"], not'),
        (["in.jsonl", "--set", "evict.trigger.x=1"], "evict.trigger: a trigger is"),
        (["in.jsonl", "--set", "mode=fast"], "mode should be 'observe', 'safe' or 'full'"),
        (["in.jsonl", "--set", "template=none.jinja"], "cannot read none.jinja"),
        (["in.jsonl", "--set", "kv.model=none"], "there is no model 'none' in the table"),
        (["in.jsonl", "--summarizer", "who"], "--summarizer who: write none, extractive, or"),
        (["in.jsonl", "--summarizer", "http://"], "http:// is no URL of a server"),
        (["in.jsonl", "--summarizer", "http://127.0.0.1:1"], "nothing answers at"),
        (["in.jsonl", "--window", "0"], "--window"),
        (["in.jsonl", "--window", "wide"], "--window"),
        (["in.jsonl", "--events", "-"], "cannot go to the same place"),
        (["in.jsonl", "-o", "x", "--events", "./x"], "cannot go to the same place"),
        (["in.jsonl", "-o", "x", "--events", "in.jsonl"], "would replace the recording"),
        ([], "IN"),
    ],
)
def test_what_cannot_be_done_is_said(folder: Path, arguments: list[str], words: str) -> None:
    said = refused(*arguments)
    assert words in said
    assert "Traceback" not in said


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read all")
def test_a_recording_that_may_not_be_read(folder: Path) -> None:
    (folder / "in.jsonl").chmod(0)
    result = run("in.jsonl")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot read in.jsonl: Permission denied" in result.stderr


def test_a_line_longer_than_any_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvagent.cli.rewrite._LONGEST_LINE", 100)
    assert "line 1 of in.jsonl is longer" in refused("in.jsonl", "-o", "out.jsonl")
