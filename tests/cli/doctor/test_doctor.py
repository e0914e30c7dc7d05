"""Does the doctor find what is wrong with a real server, and nothing where nothing is?"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kvagent import cli

runner = CliRunner()

DATED = """{%- for m in messages -%}<|im_start|>{{ m.role }}
{% if loop.first %}Today is {{ strftime_now('%d %B %Y') }}. {% endif %}{{ m.content }}<|im_end|>
{% endfor -%}<|im_start|>assistant
"""


def examined(url: str, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the report."""
    result = runner.invoke(cli.main, ["doctor", "--base-url", url, "--json", *options])
    assert result.exit_code in (0, 1), result.stderr
    return result.exit_code, json.loads(result.stdout)


def codes(report: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in report["findings"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny one."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    from kvagent.cli.demo.server import default_model
    from tests.tiny_model import LLAMA, write

    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write(path, default_model(), LLAMA)
    return path


@pytest.fixture(scope="module")
def small(model: Path) -> Iterator[str]:
    """Two slots of 1,024 tokens."""
    from kvagent.cli.demo.server import LlamaCpp

    with LlamaCpp(model, n_ctx=2048, n_parallel=2, threads=1) as server:
        yield server.base_url


def test_a_healthy_server_has_nothing_to_mend(llamacpp: str) -> None:
    status, report = examined(llamacpp)
    assert (status, report["findings"]) == (0, [])
    assert report["server"]["kind"] == "llama.cpp"
    assert report["server"]["window"] == 8192
    trial = report["trial"]
    assert trial["cached_tokens_second"] == trial["prompt_tokens"] - 1


def test_too_small_a_window(small: str) -> None:
    status, report = examined(small)
    assert (status, codes(report)) == (1, ["window-small"])
    (finding,) = report["findings"]
    assert "1,024" in finding["seen"]
    assert "-c" in finding["remedy"]
    assert examined(small, "--context", "1000")[0] == 0


def test_more_agents_than_slots(small: str) -> None:
    _, report = examined(small, "--context", "1000", "--agents", "3")
    assert codes(report) == ["slots-few"]
    assert "-np" in report["findings"][0]["remedy"]
    assert examined(small, "--context", "1000", "--agents", "2")[0] == 0


def test_passive_sends_nothing(small: str) -> None:
    def served() -> list[str]:
        with urllib.request.urlopen(small.removesuffix("/v1") + "/metrics") as metrics:
            lines = metrics.read().decode().splitlines()
        return [line for line in lines if line.startswith("llamacpp:prompt_tokens")]

    before = served()
    _, report = examined(small, "--passive")
    assert report["trial"] is None
    assert served() == before


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_fits_the_terminal(small: str, width: int) -> None:
    result = runner.invoke(
        cli.main, ["doctor", "--base-url", small, "--agents", "9"], env={"COLUMNS": str(width)}
    )
    assert result.exit_code == 1
    assert all(len(line) <= width for line in result.stdout.splitlines())
    assert "2 findings" in result.stdout


def test_nobody_there() -> None:
    result = runner.invoke(cli.main, ["doctor", "--base-url", "http://127.0.0.1:9/v1"])
    assert result.exit_code == 2
    assert result.stderr.startswith("kvagent doctor: nothing answers at")


def test_a_template_that_prints_the_date(model: Path, tmp_path: Path) -> None:
    from kvagent.cli.demo.server import LlamaCpp

    template = tmp_path / "dated.jinja"
    template.write_text(DATED)
    with LlamaCpp(model, template=template, threads=1) as server:
        status, report = examined(server.base_url)
    assert (status, codes(report)) == (1, ["template-date-in-prompt"])


def test_closed_metrics_are_worth_a_note(model: Path, small: str) -> None:
    from kvagent.cli.demo.server import LlamaCpp

    with LlamaCpp(model, threads=1, endpoint_metrics=False) as server:
        status, report = examined(server.base_url)
    assert status == 0
    assert "--metrics" in report["notes"][0]
    assert not any("--metrics" in note for note in examined(small)[1]["notes"])
