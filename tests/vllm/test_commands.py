"""Do doctor and verify tell the truth about a real vLLM?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kvagent import cli
from tests.prediction.sessions import growing, resent, with_tool_calls
from tests.prediction.vllm import VLLM, Setup

runner = CliRunner()

DATED = """{%- for m in messages -%}<|im_start|>{{ m.role }}
{% if loop.first %}Today is {{ strftime_now('%d %B %Y') }}. {% endif %}{{ m.content }}<|im_end|>
{% endfor -%}<|im_start|>assistant
"""


class Careless(Setup):
    """Started by somebody who does not know what agents need."""

    def command(self, python: Path, model: Path, port: int) -> Sequence[str]:
        template = python.parent.parent / "dated.jinja"
        template.write_text(DATED)
        options = ("--no-enable-prompt-tokens-details", "--no-enable-prefix-caching")
        usual = Setup.command(self, python, model, port)
        return [*usual, *options, f"--chat-template={template}"]


@pytest.fixture(scope="module")
def careless(vllm_python: Path) -> Iterator[str]:
    with VLLM(Careless(blocks=None, max_model_len=2048), vllm_python) as server:
        yield f"http://127.0.0.1:{server.port}/v1"


@pytest.fixture(scope="module")
def healthy(vllm_python: Path) -> Iterator[VLLM]:
    with VLLM(Setup(blocks=None), vllm_python) as server:
        yield server


def examined(url: str, *options: str) -> tuple[int, dict[str, Any]]:
    result = runner.invoke(cli.main, ["doctor", "--base-url", url, "--json", *options])
    assert result.exit_code in (0, 1), result.stderr
    return result.exit_code, json.loads(result.stdout)


def test_what_is_wrong_is_found(careless: str) -> None:
    status, report = examined(careless)
    assert status == 1
    assert [finding["code"] for finding in report["findings"]] == [
        "caching-off",
        "cached-not-reported",
        "window-small",
        "template-date-in-prompt",
    ]


def test_passive_finds_what_the_server_says_of_itself(careless: str) -> None:
    _, report = examined(careless, "--passive")
    assert [finding["code"] for finding in report["findings"]] == ["caching-off", "window-small"]
    assert report["trial"] is None


def test_without_counts_nothing_can_be_verified(careless: str, tmp_path: Path) -> None:
    result = runner.invoke(cli.main, ["verify", str(recording(tmp_path)), "--base-url", careless])
    assert result.exit_code == 2
    assert "--enable-prompt-tokens-details" in result.stderr


def test_a_healthy_server(healthy: VLLM) -> None:
    url = f"http://127.0.0.1:{healthy.port}/v1"
    status, report = examined(url)
    assert (status, report["findings"]) == (0, [])
    assert report["server"]["block_size"] == 128
    assert report["condition"]["kv_tokens"] == healthy.cache_size()
    _, report = examined(url, "--agents", "1000")
    assert [finding["code"] for finding in report["findings"]] == ["pool-small"]


def test_verify_on_a_server_that_was_used_before(healthy: VLLM, tmp_path: Path) -> None:
    file = recording(tmp_path)
    url = f"http://127.0.0.1:{healthy.port}/v1"
    for _ in range(2):
        result = runner.invoke(cli.main, ["verify", str(file), "--base-url", url, "--json"])
        report = json.loads(result.stdout)
        assert (result.exit_code, report["right"]) == (0, report["requests"]), result.stdout
    assert report["naive_right"] < report["requests"]


def recording(folder: Path) -> Path:
    """Three conversations in turn."""
    sessions = [growing("a", 3), with_tool_calls("b", 3), resent("c", 3)]
    bodies = [next(session) for session in sessions]
    for _ in range(2):
        bodies += [session.send({"role": "assistant", "content": "I see."}) for session in sessions]
    file = folder / "requests.jsonl"
    file.write_text("".join(json.dumps(body) + "\n" for body in bodies), encoding="utf-8")
    return file
