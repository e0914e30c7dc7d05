from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from kvagent import cli
from kvagent.cli.byte_counts import said
from kvagent.cli.plan import show

GIB = 2**30
ASKED = ("--context", "8192", "--concurrency", "4")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["plan", *arguments])


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


def test_it_fits() -> None:
    report = as_json("Llama-3-8B", "--gpu", "RTX-4090", *ASKED)
    assert report["fits"] is True
    assert report["most_requests"] == 5
    assert report["memory"]["weight_bytes"] == pytest.approx(16.06e9, rel=0.001)
    assert report["server"] == "vLLM"
    assert "It fits: room for 5 such requests." in text_of(report, 100)


def test_what_does_not_fit_is_started_with_what_makes_it_fit() -> None:
    report = as_json("Llama-3.3-70B", "--gpu", "H100", *ASKED)
    assert (report["fits"], report["commands_with"]) == (False, "tensor parallel")
    assert "--tensor-parallel-size" in report["commands"]["vllm"]
    assert "Start it so, with tensor parallel" in text_of(report, 100)


def test_it_does_not_fit() -> None:
    report = as_json("Llama-3-8B", "--gpu", "RTX-4090", "--context", "8192", "--concurrency", "9")
    assert report["fits"] is False
    assert f"{report['longest_context']:,} tokens each for 9" in re.sub(
        r"\s+", " ", text_of(report, 80)
    )
    large = as_json("Llama-3.3-70B", "--gpu", "RTX-4090", *ASKED)
    assert (large["fits"], large["memory"]["space_bytes"], large["most_requests"]) == (False, 0, 0)
    assert "the weights and buffers alone are more" in text_of(large, 120)


def test_every_usual_means_is_named() -> None:
    report = as_json("gpt-oss-20b", "--gpu", "H100", *ASKED, "--shared-head", "3000")
    assert [one["name"] for one in report["means"]] == [
        "prefix caching",
        "KV quantisation",
        "tensor parallel",
        "CPU offload",
        "sliding window",
        "shorter context",
    ]
    prefix = report["means"][0]
    assert prefix["kv_bytes"] < report["memory"]["kv_bytes"]
    assert report["prefill"]["cached_tokens"] == 2992
    assert report["prefill"]["warm_seconds"] < report["prefill"]["seconds"]


def test_the_edge_profile() -> None:
    report = as_json("Qwen3-8B", "--gpu", "8,68", "--profile", "edge")
    assert report["context"] == 8192
    assert (report["server"], report["weights_dtype"], report["kv_dtype"]) == (
        "llama.cpp",
        "q4_k_m",
        "q8_0",
    )
    assert report["fits"] is True
    assert report["prefill"]["seconds"] is None
    assert report["decode"]["tokens_per_second"] == pytest.approx(13, abs=1)
    given = as_json(
        *("Qwen3-8B", "--gpu", "8,68", "--profile", "edge", "--context", "4096"),
        *("--kv-dtype", "q4_0", "--weights-dtype", "q8_0"),
    )
    assert (given["context"], given["weights_dtype"], given["kv_dtype"]) == (4096, "q8_0", "q4_0")


@pytest.mark.parametrize(
    ("options", "server"),
    [
        ([], "vLLM"),
        (["--server", "llama.cpp"], "llama.cpp"),
        (["--server", "VLLM"], "vLLM"),
        (["--kv-dtype", "q8_0"], "llama.cpp"),
        (["--kv-dtype", "fp8"], "vLLM"),
    ],
)
def test_whose_memory_is_planned(options: list[str], server: str) -> None:
    assert as_json("Llama-3-8B", "--gpu", "24", *ASKED, *options)["server"] == server


def test_a_folder_s_weights_count_as_they_lie_there(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 128}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    result = run(str(tmp_path), "--gpu", "24", *ASKED)
    assert result.exit_code == 2
    assert "give --parameters" in result.stderr
    assert as_json(str(tmp_path), "--gpu", "24", *ASKED, "--parameters", "1")["memory"][
        "weight_bytes"
    ] == pytest.approx(2e9)
    # With parameters and a size, there are speeds too.
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(3 * GIB)
    report = as_json(str(tmp_path), "--gpu", "24,1000", *ASKED, "--parameters", "1")
    assert report["memory"]["weight_bytes"] == 3 * GIB
    assert report["commands"]["vllm"][2] == str(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nonesuch", "--gpu", "H100", *ASKED], "no model 'nonesuch'"),
        (["Llama-3-8B", "--gpu", "H1000", *ASKED], "no GPU 'H1000' in the table: take one of H100"),
        (["Llama-3-8B", "--gpu", "24,x", *ASKED], "'x' in '24,x' is no number above 0"),
        (["Llama-3-8B", "--gpu", "H100"], "--context is missing"),
        (["Llama-3-8B", "--gpu", "H100", *ASKED, "--tp", "3"], "--tp 3: vLLM cannot divide"),
        (["Llama-3-8B", "--gpu", "H100", *ASKED, "--tp", "3", "--server", "llama.cpp"], ""),
        (["Llama-3-8B", "--gpu", "H100", *ASKED, "--kv-dtype", "fp9"], "data type 'fp9'"),
        (["Llama-3-8B", "--gpu", "H100", *ASKED, "--weights-dtype", "q4"], ""),
        (["Llama-3-8B", "--gpu", "H100", *ASKED, "--weights-dtype", "fp3"], "not kept in 'fp3'"),
        (["Llama-3-8B", "--gpu", "H100", *ASKED, "--profile", "cloud"], "no profile 'cloud'"),
        (["Llama-3-8B", "--gpu", "H100", *ASKED, "--server", "tgi"], "no server 'tgi'"),
        (
            ["Llama-3-8B", "--gpu", "H100", *ASKED, "--server", "vllm", "--kv-dtype", "q8_0"],
            "vLLM keeps no KV in q8_0",
        ),
        (["Llama-3-8B", "--gpu", "H100", *ASKED, "--parameters", "-1"], "--parameters is -1"),
        (["Llama-3-8B", "--gpu", "H100", *ASKED, "--kv-dtype", "fp8_ds_mla"], "packs latent"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], why: str) -> None:
    result = run(*arguments)
    if not why:
        assert result.exit_code == 0
        return
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("kvagent plan: ")
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


CASES = [
    ("Llama-3-8B", "RTX-4090", ()),
    ("Gemma-3-27B", "H100", ("--shared-head", "4000")),
    ("DeepSeek-V3", "80", ("--tp", "8")),
    ("Qwen3-Next-80B-A3B", "H200", ("--kv-dtype", "fp8")),
    ("gpt-oss-120b", "80,3350", ()),
    ("Qwen3-8B", "8,68", ("--profile", "edge")),
    ("Mistral-7B-v0.1", "24,1008,165", ("--server", "llama.cpp")),
    ("Falcon-7B", "24", ()),
]


@pytest.mark.parametrize(("model", "gpu", "options"), CASES)
@pytest.mark.parametrize("width", [40, 60, 79, 80, 120])
def test_the_text_has_the_figures_of_the_json_and_keeps_to_the_terminal(
    model: str, gpu: str, options: tuple[str, ...], width: int
) -> None:
    report = as_json(model, "--gpu", gpu, *ASKED, *options)
    text = text_of(report, width)
    lines = text.splitlines()
    commands = [line for line in lines if line.startswith(("vllm ", "llama-server "))]
    assert [line.split() for line in commands] == list(report["commands"].values())
    assert max(len(line) for line in lines if line not in commands) <= width
    assert "…" not in text
    for figure in report["memory"].values():
        assert said(figure) in text
    own = "vllm" if report["server"] == "vLLM" else "llamacpp"
    parted = set(text.split())
    for one in report["means"]:
        assert one["name"] in text
        assert set((one[own] or "").split()) <= parted  # no flag is broken
        assert one["kv_bytes"] is None or said(one["kv_bytes"]) in text
    for sentence in report["assumptions"]:
        assert re.sub(r"\s+", "", sentence) in re.sub(r"\s+", "", text)
    assert report["decode"]["seconds"] is not None or "not known without" in text


@pytest.mark.parametrize(("model", "gpu", "options"), CASES)
def test_the_bounds_are_what_they_say(model: str, gpu: str, options: tuple[str, ...]) -> None:
    report = as_json(model, "--gpu", gpu, *ASKED, *options)
    decode, memory = report["decode"], report["memory"]
    if decode["seconds"] is None:
        return
    # Everything that is read lies in the GPU's memory, and is read at its bandwidth.
    assert decode["seconds"] == pytest.approx(decode["bytes"] / report["gpu"]["gb_per_s"] / 1e9)
    assert decode["bytes"] <= memory["weight_bytes"] + memory["kv_bytes"]
    assert decode["of_all"] == pytest.approx(4 * decode["tokens_per_second"])
