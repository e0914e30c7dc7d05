"""Which settings count, and is a wrong one told in a sentence?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.audit.auditing import refused, run


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
