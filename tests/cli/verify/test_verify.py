"""Does verify say what a real server reports, and see where it differs?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kvagent import cli
from tests.prediction.sessions import Body, growing, resent, with_tool_calls

runner = CliRunner()
REPLY = {"role": "assistant", "content": "I see."}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two slots and no host cache."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    from kvagent.cli.demo.server import LlamaCpp, default_model
    from tests.tiny_model import LLAMA, write

    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write(model, default_model(), LLAMA)
    with LlamaCpp(model, n_ctx=2048, n_parallel=2, threads=1) as started:
        yield started.base_url


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three conversations in turn, in words enough to see a difference."""
    sessions = [growing("a", 2), with_tool_calls("b", 2), resent("c", 2)]
    bodies: list[Body] = [next(session) for session in sessions]
    bodies += [session.send(dict(REPLY)) for session in sessions]
    file = tmp_path / "requests.jsonl"
    file.write_text("".join(json.dumps(body) + "\n" for body in bodies), encoding="utf-8")
    return file


def verified(url: str, file: Path, *options: str) -> tuple[int, dict[str, Any]]:
    result = runner.invoke(cli.main, ["verify", str(file), "--base-url", url, "--json", *options])
    assert result.exit_code in (0, 1), result.stderr
    return result.exit_code, json.loads(result.stdout)


def test_every_request_is_as_predicted_and_again_on_the_used_server(
    server: str, recording: Path
) -> None:
    for _ in range(2):
        status, report = verified(server, recording, "--host-cache", "0")
        assert [(row["predicted"], row["fault"]) for row in report["rows"]] == [
            (row["reported"], "") for row in report["rows"]
        ]
        assert (status, report["requests"], report["right"]) == (0, 6, 6)
    assert report["naive_right"] < 6


def test_standard_input(server: str, recording: Path) -> None:
    result = runner.invoke(
        cli.main,
        ["verify", "-", "--base-url", server, "--host-cache", "0", "--json"],
        input=recording.read_bytes(),
    )
    assert (result.exit_code, json.loads(result.stdout)["right"]) == (0, 6), result.stderr


def test_a_setting_that_is_not_the_server_s_is_seen(server: str, recording: Path) -> None:
    """With a host cache the third conversation would have come back."""
    status, report = verified(server, recording)
    assert status == 1
    assert report["right"] < report["requests"]
    result = runner.invoke(cli.main, ["verify", str(recording), "--base-url", server])
    assert result.exit_code == 1
    assert "✗ differs" in result.stdout
    assert "requests as predicted" in result.stdout


def test_what_is_too_long_is_predicted_too(server: str, tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    message = {"role": "user", "content": "word " * 1500}
    file.write_text(json.dumps({"messages": [message]}) + "\n")
    status, report = verified(server, file, "--host-cache", "0")
    assert (status, report["rows"][0]["loss"]) == (0, "too long")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot read"),
        ("", "holds no request"),
        ("{}\n", "line 1 is not a chat request"),
        ('{"messages": [{"role": "user", "content": "a"}]}\nnope\n', "line 2 is not JSON"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, text: str | None, sentence: str) -> None:
    file = tmp_path / "requests.jsonl"
    if text is not None:
        file.write_text(text)
    result = runner.invoke(cli.main, ["verify", str(file), "--base-url", "http://127.0.0.1:9"])
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("text", "sentence"), [("", "holds no request"), ("{}\n", ", line 1 is not a chat request")]
)
def test_standard_input_has_a_name(text: str, sentence: str) -> None:
    arguments = ["verify", "-", "--base-url", "http://127.0.0.1:9"]
    result = runner.invoke(cli.main, arguments, input=text)
    assert result.exit_code == 2
    assert result.stderr.startswith("kvagent verify: standard input")
    assert sentence in result.stderr


def test_what_earlier_requests_left_behind_is_told(
    tmp_path_factory: pytest.TempPathFactory, recording: Path
) -> None:
    from kvagent.cli.demo.server import LlamaCpp, default_model
    from tests.tiny_model import LLAMA, write

    model = write(tmp_path_factory.mktemp("model") / "tiny.gguf", default_model(), LLAMA)
    with LlamaCpp(model, n_ctx=2048, threads=1, cache_ram_mib=8192) as used:
        status, report = verified(used.base_url, recording)
        assert (status, report["notes"]) == (0, [])
        status, report = verified(used.base_url, recording)
    assert status == 1
    assert "host cache cannot be emptied" in report["notes"][0]
