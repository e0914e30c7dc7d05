"""Does `kvagent rewrite` write what would have gone out, whole or not at all?"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pytest
from typer.testing import CliRunner, Result

from kvagent import Engine
from kvagent.cli import main
from kvagent.cli.rewrite import _BROKEN_LINES_SAID
from tests.compaction.good import good
from tests.scripted import tokens_of

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command runs, with a recording `in.jsonl`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_bytes(SESSION)
    return tmp_path


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


# -- what is written


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


# -- what is set


LONG = json.dumps(
    {
        "messages": [
            {"role": "user", "content": "Look"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": "\n".join(f"row {at} of many: {at * 7919}" for at in range(4000)),
            },
        ]
    }
).encode()


def test_a_policy_switches_a_stage_off(folder: Path) -> None:
    (folder / "off.json").write_text('{"evict": null}')
    assert len(run("-", stdin=LONG).stdout) < len(LONG) / 2
    assert run("-", "--policy", "off.json", stdin=LONG).stdout_bytes == LONG


def test_the_window_goes_before_the_policy(folder: Path) -> None:
    (folder / "p.toml").write_text('window = 8_000_000\n[evict]\ntrigger = "fraction(0.5)"\n')
    assert run("-", "--policy", "p.toml", stdin=LONG).stdout_bytes == LONG
    narrow = run("-", "--policy", "p.toml", "--window", "8000", stdin=LONG)
    assert len(narrow.stdout) < len(LONG) / 2


def test_fields_go_before_the_policy_and_the_last_one_counts(folder: Path) -> None:
    (folder / "p.toml").write_text("window = 8_000\n[evict]\nkeep = 3_000\n")
    wide = run("-", "--policy", "p.toml", stdin=LONG).stdout
    narrow = run("-", "--policy", "p.toml", "--set", "evict.keep=500", stdin=LONG).stdout
    assert len(narrow) < len(wide) < len(LONG)
    again = ["--set", "evict.keep=9000", "--set", "evict.keep=500"]
    assert run("-", "--policy", "p.toml", *again, stdin=LONG).stdout == narrow
    stages = [word for name in ("evict", "clear", "compact") for word in ("--set", f"{name}=off")]
    assert run("-", "--policy", "p.toml", *stages, stdin=LONG).stdout_bytes == LONG


@pytest.mark.parametrize("off", ["off", "false", "null"])
def test_a_stage_is_switched_off_by_a_field(folder: Path, off: str) -> None:
    assert run("-", "--set", f"evict={off}", stdin=LONG).stdout_bytes == LONG


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        (["evict.trigger=tokens(900_000)"], True),
        (["evict.trigger=900000"], True),
        (['evict.exclude_tools=["f"]'], True),
        (['evict.exclude_tools=["g"]'], False),
        (["mode=observe"], True),
        (["evict=off", "evict=on"], False),
        (["evict=off", "evict.keep=900"], False),
    ],
)
def test_fields_of_every_kind(folder: Path, fields: list[str], same: bool) -> None:
    options = [word for field in fields for word in ("--set", field)]
    assert (run("-", *options, stdin=LONG).stdout_bytes == LONG) is same


def test_observe_mode_writes_what_came(folder: Path) -> None:
    (folder / "p.json").write_text('{"mode": "observe"}')
    result = run("in.jsonl", "--policy", "p.json", "--events", "e", "--verbose")
    assert result.stdout_bytes == SESSION
    assert "would be saved" in result.stderr
    assert b'"applied":false' in (folder / "e").read_bytes()


# -- old turns


def long_session(turns: int = 40) -> bytes:
    """An agent that reads one file after the other, request by request."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You read."},
        {"role": "user", "content": "Read all files, and never touch config.yaml."},
    ]
    lines = []
    for n in range(turns):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/file_{n}.py"})}
        calls = [{"id": f"c{n}", "type": "function", "function": function}]
        text = "\n".join(f"value_{n}_{at} = {at * n * 31337 % 99991}" for at in range(20))
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
        lines.append(json.dumps({"model": "recorded", "messages": messages, "max_tokens": 100}))
    return "\n".join(lines).encode()


NARROW = ["--window", "4000", "--set", "clear=off", "-v", "-o", "out.jsonl"]


class Summaries:
    """A server with one model, which answers what it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.status = 200
        self.answer: Any = None
        handler = type("Handler", (_Handler,), {"summaries": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, request: dict[str, Any]) -> Any:
        if self.answer is not None:
            return self.answer
        message = {"role": "assistant", "content": good(request).text}
        cached = {"cached_tokens": 900}
        usage = {
            "prompt_tokens": 1_000,
            "completion_tokens": 50,
            "prompt_tokens_details": cached,
        }
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    summaries: Summaries

    def log_message(self, format: str, *args: object) -> None:
        """Tests say themselves what they saw."""

    def do_GET(self) -> None:
        self._say(200, {"object": "list", "data": [{"id": "served"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.summaries.asked.append(request)
        self.summaries.keys.append(self.headers["authorization"])
        self._say(self.summaries.status, self.summaries.reply(request))

    def _say(self, status: int, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def summaries() -> Iterator[Summaries]:
    with Summaries() as server:
        yield server


def prompts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("summarizer", [[], ["--summarizer", "none"]])
def test_facts_alone_stand_for_old_turns(folder: Path, summarizer: list[str]) -> None:
    result = run("-", *NARROW, *summarizer, stdin=long_session())
    assert result.exit_code == 0
    assert "compact: " in result.stderr
    assert "summaries: " not in result.stderr
    assert "never touch config.yaml" in json.dumps(prompts(folder)[-1])
    assert max(map(tokens_of, prompts(folder))) < 4_000


def test_rules_without_a_model_write_a_narrative(folder: Path) -> None:
    run("-", *NARROW, stdin=long_session())
    alone = prompts(folder)
    result = run("-", *NARROW, "--summarizer", "extractive", stdin=long_session())
    assert result.exit_code == 0
    assert prompts(folder)[-1] != alone[-1]
    assert max(map(tokens_of, prompts(folder))) < 4_000
    first = (folder / "out.jsonl").read_bytes()
    run("-", *NARROW, "--summarizer", "extractive", stdin=long_session())
    assert (folder / "out.jsonl").read_bytes() == first


def test_a_server_writes_a_narrative(folder: Path, summaries: Summaries) -> None:
    arguments = [*NARROW, "--summarizer", summaries.url, "--api-key", "k"]
    result = run("-", *arguments, stdin=long_session())
    assert result.exit_code == 0
    assert summaries.asked
    assert {request["model"] for request in summaries.asked} == {"served"}
    assert set(summaries.keys) == {"Bearer k"}
    told = f"summaries: {100 * len(summaries.asked):,} tokens prefilled, "
    assert told + f"{50 * len(summaries.asked):,} generated" in result.stderr
    assert "The cause lay in the parser" in json.dumps(prompts(folder)[-1])
    assert max(map(tokens_of, prompts(folder))) < 4_000


@pytest.mark.parametrize(
    ("status", "answer", "says"),
    [
        (404, {"error": "no such model"}, "status 404: "),
        (500, {"error": {"message": "overheated"}}, "status 500: "),
        (200, {"choices": []}, "no chat completion"),
        (200, ["nothing"], "no chat completion"),
        (200, {"choices": [{"message": "nothing"}]}, "no chat completion"),
    ],
)
def test_a_server_that_fails_is_told_once_and_facts_stand_alone(
    folder: Path, summaries: Summaries, status: int, answer: Any, says: str
) -> None:
    run("-", *NARROW, stdin=long_session())
    alone = prompts(folder)
    summaries.status, summaries.answer = status, answer
    result = run("-", *NARROW, "--summarizer", summaries.url, stdin=long_session())
    assert result.exit_code == 0
    assert result.stderr.count("the summarizer fails, and facts stand alone: ") == 1
    assert says in result.stderr
    assert [tokens_of(body) < 4_000 for body in prompts(folder)] == [True] * len(alone)


@pytest.mark.parametrize("content", [None, "", [{"type": "text", "text": "x"}], "I cannot do it."])
def test_a_narrative_that_does_not_hold_is_left_out(
    folder: Path, summaries: Summaries, content: Any
) -> None:
    message = {"role": "assistant", "content": content}
    summaries.answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
    result = run("-", *NARROW, "--summarizer", summaries.url, stdin=long_session())
    assert result.exit_code == 0
    assert "goes out as it came" not in result.stderr
    assert "I cannot do it." not in json.dumps(prompts(folder)[-1])
    assert max(map(tokens_of, prompts(folder))) < 4_000


# -- what is told


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


def test_a_summary_only_when_asked_for(folder: Path) -> None:
    assert run("in.jsonl", "-o", "out.jsonl").stderr == ""
    summary = run("in.jsonl", "-o", "out.jsonl", "-v").stderr
    assert summary.startswith("4 requests, 4 edited, 0 prefix breaks, some ")


# -- what is refused


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


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX limits")
def test_a_full_disk_leaves_what_was_there(folder: Path) -> None:
    (folder / "out.jsonl").write_bytes(b"old")
    limited = ["-c", 'ulimit -f 1; exec "$@"', "sh", *COMMAND]
    (folder / "in.jsonl").write_bytes(SESSION * 50)
    done = subprocess.run(
        ["/bin/sh", *limited, "in.jsonl", "-o", "out.jsonl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("kvagent rewrite: cannot write a temporary file beside out.jsonl")
    assert "\n" not in done.stderr.rstrip("\n")
    assert (folder / "out.jsonl").read_bytes() == b"old"
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_nothing_half_written(folder: Path) -> None:
    (folder / "out.jsonl").write_bytes(b"old")
    with subprocess.Popen(
        [*COMMAND, "-", "-o", "out.jsonl"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(SESSION)
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not list(folder.glob(".kvagent-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        # One may land where the interpreter can only drop it, in a finaliser: people press it again.
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert (folder / "out.jsonl").read_bytes() == b"old"
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX pipes")
def test_a_reader_that_has_read_enough(folder: Path) -> None:
    (folder / "in.jsonl").write_bytes(SESSION * 200)
    pipe = ["-o", "pipefail", "-c", '"$@" | head -c 10', "sh", *COMMAND, "in.jsonl"]
    done = subprocess.run(["/bin/sh", *pipe[2:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
