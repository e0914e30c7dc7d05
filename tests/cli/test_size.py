from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner, Result

from kvagent import cli
from kvagent.cli.demo.server import ServerError, default_model
from kvagent.cli.model_argument import Named
from kvagent.cli.size import show, sizes
from kvagent.kvmemory.geometry import Geometry
from kvagent.kvmemory.memory import Storage
from kvagent.kvmemory.models import models
from tests.kvmemory.strategies import contexts, geometries, rule, storages

GIB = 2**30


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["size", *arguments])


def as_json(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def text_of(report: dict[str, Any], width: int) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        show(report, console)
    return capture.get()


def test_llama_3_8b() -> None:
    report = as_json("Llama-3-8B", "--context", "8192", "--concurrency", "3")
    assert report["bytes_per_token"] == 131_072
    assert report["bytes_per_request"] == GIB
    assert report["bytes_total"] == 3 * GIB
    assert report["vllm"]["bytes_total"] == report["llamacpp"]["bytes_total"] == 3 * GIB
    assert report["layers"] == [
        {
            "count": 32,
            "kind": "full",
            "window": None,
            "formula": "32 layers × 8 heads × (128 + 128) × 2 B",
            "bytes_per_token": 131_072,
            "bytes_per_request": GIB,
        }
    ]


def test_the_context_is_the_model_s_own_unless_given() -> None:
    assert as_json("Llama-3.1-8B")["context"] == 131_072


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        (["--cpu"], 93_184),
        (["--block-size", "128"], 93_184),
        ([], 93_200),
        (["--block-size", "32"], 93_184),
    ],
)
def test_vllm_s_own_line(options: list[str], tokens: int) -> None:
    report = as_json("SmolLM2-135M", "--context", "8192", "--space", "2", *options)
    assert report["vllm"]["tokens"] == tokens
    assert report["vllm"]["space_bytes"] == 2 * GIB


def test_vllm_s_own_line_of_a_gguf_file() -> None:
    try:
        path = default_model()
    except ServerError:
        pytest.skip("the model is not installed (group demo)")
    assert as_json(str(path), "--space", "2", "--cpu")["vllm"]["tokens"] == 93_184


def test_tokens_in_flight_matter_to_windows_alone() -> None:
    def tokens(model: str, in_flight: str) -> int:
        options = ("--space", "20", "--context", "32768", "--in-flight", in_flight)
        found: int = as_json(model, *options)["vllm"]["tokens"]
        return found

    assert tokens("Llama-3-8B", "2048") == tokens("Llama-3-8B", "16384")
    assert tokens("Gemma-3-27B", "2048") > tokens("Gemma-3-27B", "16384")


def test_each_server_has_its_own_data_types() -> None:
    fp8, q8 = (
        as_json("Llama-3-8B", "--kv-dtype", "fp8"),
        as_json("Llama-3-8B", "--kv-dtype", "q8_0"),
    )
    assert (fp8["bytes_per_token"], q8["bytes_per_token"]) == (65_536, 69_632)
    assert fp8["llamacpp"] is None
    assert q8["vllm"] is None
    assert as_json("Llama-3-8B", "--tp", "2")["llamacpp"] is None


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nonesuch"], "no model 'nonesuch' in the table"),
        (["Llama-3-8B", "--kv-dtype", "fp9"], "no KV cache has the data type 'fp9'"),
        (["Llama-3-8B", "--kv-dtype", "fp8_ds_mla"], "packs latent attention"),
        (["Llama-3-8B", "--tp", "3"], "--tp 3: vLLM cannot divide the heads of Llama-3-8B"),
        (["Llama-3-8B", "--space", "-2"], "--space is -2"),
        (["Llama-3-8B", "--space", "nan"], "--space is nan"),
        (["/nothing.gguf"], "there is no such file"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], why: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("kvagent size: ")
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_folder_with_another_alphabet(tmp_path: Path) -> None:
    path = tmp_path / "模型"
    path.mkdir()
    config = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 128}
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert as_json(str(path))["model"] == "模型"
    assert "模型" in run(str(path)).stdout


@pytest.mark.parametrize(
    "command", [["size"], ["plan", "--gpu", "80", "--tp", "2", "--context", "9"]]
)
def test_a_terminal_of_ascii_alone(command: list[str]) -> None:
    code = (
        "from kvagent import cli\n"
        "for name in ('size', 'plan'):\n"
        "    cli.COMMANDS[name] = cli.Command(f'kvagent.cli.{name}', '')\n"
        "cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command, "Llama-3-8B"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert done.stdout.isascii()
    assert b"Llama-3-8B" in done.stdout
    assert b"?" not in done.stdout


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", [row.name for row in models()])
def test_no_line_is_wider_than_the_terminal_and_no_formula_is_cut(name: str, width: int) -> None:
    report = as_json(name, "--space", "20")
    text = text_of(report, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    together = re.sub(r"\s+", "", text)
    assert all(re.sub(r"\s+", "", layers["formula"]) in together for layers in report["layers"])


@rule
@given(geometries, storages, contexts, st.integers(1, 9))
def test_the_text_has_the_figures_of_the_json(
    geometry: Geometry, storage: Storage, context: int, concurrency: int
) -> None:
    report = sizes(Named(geometry, "here"), context, concurrency, storage, space_bytes=20 * GIB)
    # JSON has no other numbers than these.
    assert json.loads(json.dumps(report)) == report
    text = re.sub(r"\s+", " ", text_of(report, 400))
    assert f"{report['bytes_per_request']:,} B" in text
    assert f"{concurrency:,} request" in text
    for layers in report["layers"]:
        assert layers["formula"] in text
        figure = "bytes_per_request" if layers["kind"] == "state" else "bytes_per_token"
        assert f"{layers[figure]:,}" in text
    if report["vllm"]:
        assert f"{report['vllm']['blocks_per_request']:,} blocks" in text
        assert f"{report['vllm']['tokens']:,} tokens" in text
    if report["llamacpp"]:
        assert f"{report['llamacpp']['cells']:,} cells" in text
