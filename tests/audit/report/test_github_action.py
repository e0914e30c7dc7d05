"""Does the job in the documentation do what is said of it?"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from kvagent.audit.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "github-action.md").read_text(encoding="utf-8")
STEPS = "Read what you are asked about before you answer. " * 40


def block(language: str) -> str:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found[0]


def steps() -> dict[str, dict[str, Any]]:
    workflow: dict[str, Any] = yaml.safe_load(block("yaml"))
    (job,) = workflow["jobs"].values()
    return {step["name"]: step for step in job["steps"] if "name" in step}


def record(folder: Path, *, clock: bool) -> None:
    """What the agent sends, before and after somebody put the time into its system prompt."""
    lines = []
    messages: list[dict[str, str]] = []
    for turn in range(4):
        now = f"Current time: 2026-01-02 03:04:{turn:02}\n" if clock else ""
        messages.append({"role": "user", "content": f"Question {turn}: {STEPS}"})
        system = {"role": "system", "content": f"{now}{STEPS}"}
        lines.append(json.dumps({"model": "m", "messages": [system, *messages]}))
        messages.append({"role": "assistant", "content": f"Answer {turn}."})
    (folder / "transcripts").mkdir(exist_ok=True)
    (folder / "transcripts" / "agent.jsonl").write_text("\n".join(lines) + "\n")


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As a runner does it: bash that stops at the first failure."""
    bins = folder / "bin"
    if not bins.exists():
        bins.mkdir()
        tool = bins / "kvagent"
        main = "from kvagent.cli import main; main()"
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{main}" "$@"\n')
        tool.chmod(0o755)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{bins}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a baseline of an agent that keeps its prefix."""
    (tmp_path / "pyproject.toml").write_text(block("toml"))
    record(tmp_path, clock=False)
    done = run(block("sh"), tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_the_workflow_is_one() -> None:
    workflow = yaml.safe_load(block("yaml"))
    assert workflow.keys() == {"name", True, "permissions", "jobs"}  # YAML takes `on` for true
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert re.fullmatch(r"[\w./-]+@v\d+", step.get("uses", "a@v1"))


def test_nothing_new_passes(project: Path) -> None:
    done = run(steps()["Audit"]["run"], project)
    assert (done.returncode, done.stderr) == (0, "")
    assert "::error" not in done.stdout


def test_a_clock_in_the_head_fails_and_stands_beside_its_line(project: Path) -> None:
    record(project, clock=True)
    done = run(steps()["Audit"]["run"], project)
    assert done.returncode == 1
    assert re.search(
        r"^::error file=transcripts/agent\.jsonl,line=2,title=KVA101 clock-in-head::",
        done.stdout,
        re.MULTILINE,
    )
    assert re.search(r"^::error .*title=kvagent audit%3A baseline::", done.stdout, re.MULTILINE)


def test_the_reports_are_written_and_hold_no_text(project: Path) -> None:
    record(project, clock=True)
    done = run(steps()["Report"]["run"], project)
    assert (done.returncode, done.stderr) == (0, "")
    summary = (project / "summary.md").read_text()
    log = json.loads((project / steps()["Code scanning"]["with"]["sarif_file"]).read_text())
    assert "KVA101 clock-in-head" in summary
    assert log["runs"][0]["results"][0]["ruleId"] == "KVA101"
    for text in (summary, json.dumps(log)):
        assert "03:04" not in text
        assert "Read what you are asked" not in text


def test_the_settings_are_known() -> None:
    Settings.model_validate(tomllib.loads(block("toml"))["tool"]["kvagent"]["audit"])


AGENT = """
from openai import OpenAI

def test_agent(recorded):
    client = OpenAI(base_url={url!r}, api_key="none", http_client=recorded)
    for text in ("one", "two"):
        client.chat.completions.create(model="m", messages=[{{"role": "user", "content": text}}])
"""


class Model(BaseHTTPRequestHandler):
    """Answers every request."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "Yes."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        made = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        answer = json.dumps({**made, "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def model() -> Iterator[str]:
    """The URL of a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_the_client_writes_what_is_sent(tmp_path: Path, model: str) -> None:
    """Where httpx is not installed, too: openai brings its own."""
    pytest.importorskip("openai")
    conftest = f"import sys\nsys.modules['httpx'] = None\n{block('python')}"
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_agent.py").write_text(AGENT.format(url=model))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    lines = (tmp_path / "transcripts" / "test_agent.jsonl").read_text().splitlines()
    said = [json.loads(line)["messages"][0]["content"] for line in lines]
    assert said == ["one", "two"]


def test_the_client_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    pytest.importorskip("mypy")
    (tmp_path / "conftest.py").write_text(block("python"))
    command = [sys.executable, "-m", "mypy", "--strict", "conftest.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
