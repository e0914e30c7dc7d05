"""Does `kvagent audit` read what it was named, write a report whole, and end with the right status?"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner, Result

from kvagent.audit.formats import BY_NAME
from kvagent.audit.settings import OutputFormat, Settings
from kvagent.cli import main
from kvagent.cli.audit import FORMATS
from kvagent.cli.audit.output import form_of
from kvagent.cli.failure import Failure

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a clean log and one with a fault."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "clean.jsonl").write_bytes(log())
    (tmp_path / "clock.jsonl").write_bytes(log(clock=True))
    return tmp_path


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


# -- what is read


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


def test_a_format_that_is_named(folder: Path) -> None:
    assert "nothing in clean.jsonl can be read as" in refused("clean.jsonl", "--from", "mooncake")
    assert "it holds no request in that form" in refused("clean.jsonl", "--from", "pi")
    assert "there is no format yaml; there are anthropic," in refused(
        "clean.jsonl", "--from", "yaml"
    )
    assert report("clean.jsonl", "--from", "openai_chat")["sessions"][0]["format"] == "openai_chat"


def test_help_lists_the_formats(folder: Path) -> None:
    assert sorted(BY_NAME) == FORMATS.split(", ")
    told = " ".join(run("--help").stdout.split()).replace("- ", "-")
    for name, field in Settings.model_fields.items():
        assert f"--{field.alias} " in told, name


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


# -- gates


def test_without_a_gate_findings_are_no_failure(folder: Path) -> None:
    assert run("clock.jsonl").exit_code == 0


@pytest.mark.parametrize(
    ("gate", "status"),
    [
        (["--fail-on", "error"], 1),
        (["--fail-on", "KVA3,KVA101"], 1),
        (["--fail-on", "KVA3", "--fail-on", "clock-in-head"], 1),
        (["--fail-on", "KVA3"], 0),
        (["--min-hit-rate", "50%"], 1),
        (["--min-hit-rate", "0"], 0),
        (["--max-prompt-tokens", "100"], 1),
        (["--max-prompt-tokens", "100000"], 0),
        (["--fail-on", "error", "--ignore", "KVA1"], 0),
        (["--fail-on", "error", "--select", "KVA2,KVA101"], 1),
    ],
)
def test_gates(folder: Path, gate: list[str], status: int) -> None:
    told = report("clock.jsonl", *gate, status=status)
    assert any(each["failed"] for each in told["gates"]) == bool(status)
    result = run("clock.jsonl", *gate)
    assert result.exit_code == status


def test_a_gate_is_told_where_the_report_goes_to_a_file(folder: Path) -> None:
    result = run("clock.jsonl", "--fail-on", "error", "-o", "report.json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("kvagent audit: fail-on error: ")
    assert json.loads((folder / "report.json").read_bytes())["gates"][0]["failed"]


def test_what_could_not_be_read_goes_before_a_gate(folder: Path) -> None:
    assert run("clock.jsonl", "none.jsonl", "--fail-on", "error").exit_code == 2


def test_a_baseline_lets_only_what_got_worse_fail(folder: Path) -> None:
    gate = ["--fail-on", "error", "--min-hit-rate", "90%"]
    (folder / "session.jsonl").write_bytes(log(3, clock=True))
    assert run("session.jsonl", *gate, "--write-baseline", "known.json").exit_code == 1
    assert run("session.jsonl", *gate, "--baseline", "known.json").exit_code == 0
    (folder / "session.jsonl").write_bytes(log(5, clock=True))
    assert run("session.jsonl", "--baseline", "known.json").exit_code == 1
    assert run("session.jsonl", *gate, "--baseline", "known.json").exit_code == 1
    (folder / "session.jsonl").write_bytes(log(5))
    assert run("session.jsonl", *gate, "--baseline", "known.json").exit_code == 0


def test_a_baseline_is_written_whole_or_not_at_all(folder: Path) -> None:
    result = run("clock.jsonl", "none.jsonl", "--write-baseline", "known.json")
    assert result.exit_code == 2
    assert "known.json is not written" in result.stderr
    assert not (folder / "known.json").exists()
    assert "names tools and labels" in refused(
        "clock.jsonl", "--redact", "--write-baseline", "k.json"
    )
    assert "cannot read the baseline none.json" in refused("clock.jsonl", "--baseline", "none.json")


# -- settings


def test_the_nearest_pyproject(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text("[tool.kvagent.audit]\nfail-on = ['error']\n")
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    assert run("../clock.jsonl").exit_code == 1
    assert run("../clock.jsonl", "--isolated").exit_code == 0
    assert run("../clock.jsonl", "--fail-on", "KVA3").exit_code == 0
    Path("other.toml").write_text("max-prompt-tokens = 5")
    assert run("../clean.jsonl", "--config", "other.toml").exit_code == 1
    assert "give one of them" in refused("../clean.jsonl", "--config", "other.toml", "--isolated")


def test_an_unknown_setting_is_named_with_its_file(folder: Path) -> None:
    file = folder / "pyproject.toml"
    file.write_text("[tool.kvagent.audit]\nfail-onn = 'error'\n")
    said = refused("clean.jsonl")
    assert said == f"kvagent audit: {file}: fail-onn is no setting, was fail-on meant?\n"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--min-hit-rate", "90"], "write 90% or 0.9"),
        (["--fail-on", "errors"], "--fail-on errors is no severity, was error meant?"),
        (["--select", "KVA999"], "KVA999 is no rule"),
        (["--server", "ollama"], "--server should be 'vllm' or 'llama.cpp'"),
        (["--output-format", "pdf"], "--output-format should be 'terminal'"),
        (["--tokenizer", "nowhere"], "--tokenizer nowhere: there is no such file"),
        (["--tokenizer", "http://127.0.0.1:1/v1"], "nothing answers at http://127.0.0.1:1/v1"),
        (["--template", "x"], "--template renders for --tokenizer"),
        (["--policy", "none.toml"], "cannot read the policy none.toml"),
        (["--config", "none.toml"], "cannot read none.toml"),
        (["--kv-model", "nobody"], "--kv-model: "),
        (["-o", "nowhere/report.json"], "there is no folder"),
        (["-o", "."], "it is a folder"),
        (["-o", "clean.jsonl"], "clean.jsonl would replace clean.jsonl: name another file"),
        (["--write-baseline", "./clean.jsonl"], "would replace clean.jsonl"),
        (["--write-baseline", "-"], "cannot go to the same place: give --output"),
        (["-o", "x.json", "--write-baseline", "x.json"], "would replace x.json"),
        (["-o", "report.xyz"], "no report has the suffix .xyz: name the file .htm, .html, .json, "),
        (["-o", "report.xyz"], ".sarif or .txt, or say with --output-format how it is written"),
        (["-o", "report.json.gz"], "no report has the suffix .gz"),
        (["-o", "report.x\x1b[2J\ny"], "no report has the suffix .x⟨U+001B⟩[2j y"),
    ],
)
def test_misuse_is_one_sentence(folder: Path, option: list[str], said: str) -> None:
    assert said in refused("clean.jsonl", *option)


def test_a_report_takes_no_place_of_a_transcript_in_a_folder(folder: Path) -> None:
    for option in ("--output", "--write-baseline"):
        said = refused(".", option, "clock.jsonl", "--output-format", "json")
        assert "clock.jsonl is a transcript that is audited: name another file" in said
    for _ in range(2):
        assert run(".", "-o", "report.json", "--write-baseline", "known.json").exit_code == 0


# -- what is written


def test_the_form_follows_the_file_s_name(folder: Path) -> None:
    assert run("clean.jsonl", "-o", "report.json").exit_code == 0
    as_json = (folder / "report.json").read_text()
    assert json.loads(as_json)
    assert run("clean.jsonl", "-o", "report.txt").exit_code == 0
    assert "clean.jsonl" in (folder / "report.txt").read_text()
    assert run("clean.jsonl", "-o", "named.txt", "--output-format", "json").exit_code == 0
    assert (folder / "named.txt").read_text() == as_json
    (folder / "pyproject.toml").write_text("[tool.kvagent.audit]\noutput-format = 'json'\n")
    assert run("clean.jsonl", "-o", "set.txt").exit_code == 0
    assert (folder / "set.txt").read_text() == as_json
    assert run("clean.jsonl", "-o", "set.xyz").exit_code == 0
    assert (folder / "set.xyz").read_text() == as_json
    assert not list(folder.glob(".kvagent-*"))


def test_a_file_may_have_any_suffix_if_the_form_is_named(folder: Path) -> None:
    for form in get_args(OutputFormat):
        assert form_of(form, "report.xyz", form) == form
    assert run("clean.jsonl", "-o", "report.xyz", "--output-format", "terminal").exit_code == 0
    assert run("clean.jsonl", "-o", "report").exit_code == 0
    assert (folder / "report").read_text() == (folder / "report.xyz").read_text()


def test_a_page_is_nothing_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(Failure, match=r"add --output report\.html"):
        form_of("html", "-", "html")
    assert form_of("html", "report.txt", "html") == "html"
    assert form_of(None, "-", None) == "terminal"


def test_help_imports_nothing_of_the_audit() -> None:
    code = """
import json, sys
from kvagent.cli import main
try:
    main(["audit", "--help"])
except SystemExit:
    print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout.splitlines()[-1])
    assert "kvagent.cli.audit" in modules
    assert not [name for name in modules if name.startswith("kvagent.audit")]


@pytest.mark.parametrize("form", ["json", "html", "md", "sarif", "github", "terminal"])
def test_every_form_is_the_same_each_time(folder: Path, form: str) -> None:
    """Whatever the order of Python's sets is."""
    if form == "html":
        pytest.importorskip("jinja2", reason="needs the extra `audit`")
    written = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [*COMMAND, "clock.jsonl", "clean.jsonl", "--fail-on", "note", "--output-format", form],
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=False,
        )
        assert done.returncode == 1, done.stderr
        written.append((done.stdout, done.stderr))
    assert written[0] == written[1]
    assert b"clock.jsonl" in written[0][0]


def test_redacted(folder: Path) -> None:
    secret = log(clock=True).replace(b"careful agent", b"zebra stripes")
    (folder / "secret.jsonl").write_bytes(secret)
    arguments = ["secret.jsonl", "--output-format", "json"]
    plain, hidden = run(*arguments), run(*arguments, "--redact")
    assert "09:00:01" in plain.stdout
    for text in ("zebra", "09:00:0"):
        assert text not in hidden.stdout
    one, other = json.loads(plain.stdout), json.loads(hidden.stdout)
    assert one["sessions"][0]["totals"] == other["sessions"][0]["totals"]


def test_what_if_can_be_left_out(folder: Path) -> None:
    assert report("clock.jsonl")["sessions"][0]["what_if"] is not None
    assert report("clock.jsonl", "--no-what-if")["sessions"][0]["what_if"] is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("form", ["json", "terminal"])
def test_a_full_disk(folder: Path, form: str) -> None:
    arguments = ["clock.jsonl", "--output-format", form]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, check=False
        )
    said = done.stderr.decode()
    assert done.returncode == 2
    assert said == "kvagent audit: cannot write standard output: No space left on device\n"
    assert "cannot write /dev/full: No space left" in refused(*arguments, "-o", "/dev/full")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX pipes")
@pytest.mark.parametrize("form", ["json", "terminal", "github"])
def test_a_reader_that_has_read_enough(folder: Path, form: str) -> None:
    (folder / "long.jsonl").write_bytes(log(60, clock=True))
    script = f'"$@" long.jsonl --no-what-if --output-format {form} && echo ended >&2'
    done = subprocess.run(
        ["/bin/sh", "-c", f"{{ {script}; }} | head -c 1", "sh", *COMMAND],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "ended\n"


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_no_half_report(folder: Path) -> None:
    (folder / "report.json").write_bytes(b"old")
    with subprocess.Popen(
        [*COMMAND, "-", "-o", "report.json", "--write-baseline", "known.json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(log())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while len(list(folder.glob(".kvagent-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        # One may land where the interpreter can only drop it, in a finaliser: people press it again.
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
        told, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (told, said) == (b"", b"")
    assert (folder / "report.json").read_bytes() == b"old"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["clean.jsonl", "clock.jsonl", "report.json"]


# -- real files


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
