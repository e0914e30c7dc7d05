"""Do the demo's tools read what they should, and nothing else?"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvagent.cli.demo import tools
from kvagent.cli.demo.tools import RULER, Toolbox


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in {
        "LICENSE": "Do what you like.\n",
        "pkg/a.py": "import os\n\n\ndef one() -> int:\n    return 1\n",
        "pkg/b.py": "def two() -> int:\n    return 2\n",
        "pkg/__pycache__/b.py": "def hidden(): ...\n",
        ".secret/c.py": "def hidden(): ...\n",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("tool", "arguments", "result"),
    [
        ("list_files", {"folder": "."}, "LICENSE\npkg/a.py\npkg/b.py"),
        (
            "read_file",
            {"path": "pkg/a.py", "first": 4, "last": 5},
            "def one() -> int:\n    return 1",
        ),
        (
            "read_file",
            {"path": "LICENSE pkg/b*.py pkg/b.py", "last": 1},
            f"{RULER}\nLICENSE\n{RULER}\nDo what you like.\n{RULER}\npkg/b.py\n{RULER}\ndef two() -> int:",
        ),
        (
            "grep",
            {"pattern": "return", "folder": "pkg"},
            "pkg/a.py:5: return 1\npkg/b.py:2: return 2",
        ),
        ("grep", {"pattern": "xyz", "folder": "."}, "nothing found"),
        ("grep", {"pattern": "(", "folder": "."}, "error: "),
        ("git_log", {"limit": 1}, "this folder is no git checkout"),
        ("read_file", {"path": "nothing.py"}, "error: no such file: nothing.py"),
        ("read_file", {"paths": "a"}, "error: "),
        ("list_files", {"folder": ".."}, "error: .. is outside the repository"),
        ("read_file", {"path": "../*"}, "error: "),
        ("list_files", {"folder": "absent"}, "error: "),
        ("delete_file", {}, "error: there is no tool 'delete_file'"),
    ],
)
def test_a_tool_returns(
    repository: Path, tool: str, arguments: dict[str, Any], result: str
) -> None:
    returned = Toolbox(repository).call(tool, arguments)
    assert returned.startswith(result)
    assert "hidden" not in returned
    if not result.endswith((": ", "'", "checkout")):
        assert returned == result


def test_lists_are_short(repository: Path) -> None:
    for number in range(20):
        (repository / "pkg" / f"c{number:02}.py").write_text("import os\n" * 9)
    toolbox = Toolbox(repository)
    files = toolbox.call("list_files", {"folder": "pkg"}).splitlines()
    assert files[-2:] == ["pkg/c03.py", "and 16 more"]
    assert len(toolbox.call("grep", {"pattern": "os", "folder": "pkg"}).splitlines()) == 3


def test_git_log_shows_commits(repository: Path) -> None:
    git = ["git", "-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for subject in ("first", "second"):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", subject], check=True)
    (line,) = Toolbox(repository).call("git_log", {"limit": 1}).splitlines()
    assert line.endswith(" second")


def test_a_result_is_bounded(repository: Path) -> None:
    (repository / "long.txt").write_text("word " * 10_000)
    result = Toolbox(repository).call("read_file", {"path": "long.txt"})
    assert 20_000 < len(result) < tools.MAX_CHARS + 100


def test_every_definition_is_a_tool() -> None:
    toolbox = Toolbox(tools.find_root())
    for definition in tools.DEFINITIONS:
        assert callable(getattr(toolbox, definition["function"]["name"]))
