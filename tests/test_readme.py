"""Does the README say what is true?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_quick_start_runs_on_a_real_server(llamacpp: str) -> None:
    """Twelve lines as they stand there, and the second turn's prefix comes from the cache."""
    pytest.importorskip("kvagent_openai")
    program = python_blocks()[0].replace("http://127.0.0.1:8000/v1", llamacpp)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    turns = re.findall(r"TurnFinished\(.*?prompt_tokens=(\d+), cached_tokens=(\d+)", done.stdout)
    (first, _), (_, cached) = turns
    assert int(cached) >= int(first)


@pytest.mark.parametrize("block", python_blocks(), ids=lambda block: block.split("\n")[0][:30])
def test_code_is_python(block: str) -> None:
    compile(block, "README.md", "exec")


def test_names_exist() -> None:
    """Every kvagent name in the README's code can be imported."""
    import kvagent

    for block in python_blocks():
        for names in re.findall(r"from kvagent import (.+)", block):
            assert all(hasattr(kvagent, name.strip()) for name in names.split(","))
        for name in re.findall(r"\bkvagent\.(\w+)\(", block):
            assert hasattr(kvagent, name)


def test_files_and_commands_exist() -> None:
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^    make ([\w-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}\b", makefile, re.MULTILINE), target


def test_the_audit_says_what_stands_here() -> None:
    """Line for line, but for the ones left out."""
    wanted = re.search(
        r"^    examples/transcripts/demo\.jsonl\n(?:    .*\n)+", README, re.MULTILINE
    )
    assert wanted
    command = [
        str(Path(sys.executable).with_name("kvagent")),
        "audit",
        "examples/transcripts/demo.jsonl",
    ]
    environment = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    said = iter(done.stdout.splitlines())
    for line in wanted[0].splitlines():
        shown = line[4:].rstrip()
        assert shown == "  ..." or shown in said, line
