"""Is a log read and told of, wherever it comes from and whatever form it has?"""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.audit.auditing import COMMAND, codes, log, refused, report, run


def test_a_log_and_its_faults(folder: Path) -> None:
    told = report("clean.jsonl", "clock.jsonl")
    clean, clock = told["sessions"]
    assert (clean["file"], clock["file"]) == ("clean.jsonl", "clock.jsonl")
    assert codes(clean) == set()
    assert "KVA101" in codes(clock)
    assert told["failed"] == []


def test_for_a_terminal(folder: Path) -> None:
    result = run("clock.jsonl")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "clock.jsonl" in result.stdout
    assert "KVA101" in result.stdout


def test_standard_input_has_a_name(folder: Path) -> None:
    assert run("-", stdin=log(clock=True)).stdout.startswith("standard input\n")
    (session,) = report("-", stdin=log(clock=True))["sessions"]
    assert session["file"] == "-"


@pytest.mark.parametrize("source", ["-", "packed.jsonl.gz", "/dev/stdin"])
def test_packed_and_from_a_pipe(folder: Path, source: str) -> None:
    packed = gzip.compress(log(clock=True))
    (folder / "packed.jsonl.gz").write_bytes(packed)
    done = subprocess.run(
        [*COMMAND, source, "--output-format", "json", "--no-what-if"],
        input=packed,
        capture_output=True,
        check=True,
    )
    (session,) = json.loads(done.stdout)["sessions"]
    assert session["file"] == source
    assert "KVA101" in codes(session)


def test_a_running_server_counts(folder: Path, llamacpp: str) -> None:
    """And is predicted for: exact to the token, as its slots are."""
    (session,) = report("clean.jsonl", "--tokenizer", llamacpp)["sessions"]
    assert session["exact"]
    assert session["target"]["kind"] == "llama.cpp"
    first, *others = session["rows"]
    assert first["predicted_tokens"] == 0
    assert all(turn["predicted_tokens"] > first["prompt_tokens"] / 2 for turn in others)


def test_a_folder_and_what_is_no_transcript_in_it(folder: Path) -> None:
    logs = folder / "lögs"
    (logs / "sub").mkdir(parents=True)
    (logs / "sub/ä b.jsonl").write_bytes(log())
    (logs / "one.jsonl").write_bytes(log())
    for number in range(4):
        (logs / f"notes-{number}.txt").write_text("to do")
    result = run("lögs", "clock.jsonl", "--output-format", "json")
    told = json.loads(result.stdout)
    files = [session["file"] for session in told["sessions"]]
    assert files == ["lögs/one.jsonl", "lögs/sub/ä b.jsonl", "clock.jsonl"]
    assert result.stderr == (
        "kvagent audit: 4 files are no transcripts: lögs/notes-0.txt, lögs/notes-1.txt, "
        "lögs/notes-2.txt and 1 more\n"
    )
    assert result.exit_code == 0


def test_a_format_that_is_named(folder: Path) -> None:
    assert "nothing in clean.jsonl can be read as" in refused("clean.jsonl", "--from", "mooncake")
    assert "it holds no request in that form" in refused("clean.jsonl", "--from", "pi")
    assert "there is no format yaml; there are anthropic," in refused(
        "clean.jsonl", "--from", "yaml"
    )
    assert report("clean.jsonl", "--from", "openai_chat")["sessions"][0]["format"] == "openai_chat"


def test_every_recorded_session_is_read(shared: Path, folder: Path) -> None:
    told = report(str(shared / "data"), "--no-what-if")
    assert told["failed"] == []
    assert all(session["totals"]["requests"] for session in told["sessions"])
    for session in told["sessions"]:
        assert (session["unreadable_count"] == 0) == (session["unreadable"] == [])


def test_clean_requests_have_no_findings_of_the_prefix(shared: Path, folder: Path) -> None:
    cases = shared / "cases"
    (clean,) = report(str(cases / "requests_clean.jsonl"), "--no-what-if")["sessions"]
    assert not [code for code in codes(clean) if code < "KVA5"]
    gate = ["--fail-on", "KVA1,KVA2"]
    assert run(str(cases / "requests_clean.jsonl"), "--no-what-if", *gate).exit_code == 0
    assert run(str(cases / "requests.jsonl"), "--no-what-if", *gate).exit_code == 1
