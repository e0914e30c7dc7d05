"""Which tools has the demo's agent, and what do they really return?

They read the repository that kvagent lives in; from an installed wheel, where there is none, the package's own folder.
They never write, never leave that folder, and what they return is bounded.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MAX_CHARS = 20_100
"""The most that one call returns: over the 20,000 characters that the demo must show, and with SmolLM2's 3 to 5
characters a token still in a window of 8,192 tokens beside the rest of the conversation."""

MAX_LINE = 100
"""Characters of a listed line. Files that were asked for are not cut in width."""

RULER = "=" * 80
"""Around the name of each of several files. Two tokens."""

MAX_FILES = 6
MAX_HITS = 3

SKIPPED_FOLDERS = {"__pycache__", "build", "dist", "node_modules"}


def _definition(name: str, description: str, **properties: dict[str, str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


DEFINITIONS: list[dict[str, Any]] = [
    _definition("list_files", "List the files of a folder.", folder={"type": "string"}),
    _definition(
        "read_file",
        "Read lines of a file, or whole files.",
        path={"type": "string", "description": "a path, or globs"},
        first={"type": "integer"},
        last={"type": "integer"},
    ),
    _definition(
        "grep",
        "Search Python files for a regex.",
        pattern={"type": "string"},
        folder={"type": "string"},
    ),
    _definition("git_log", "Show the latest commits.", limit={"type": "integer"}),
]


def find_root() -> Path:
    """The checkout that this package is part of, or the package's folder where there is no checkout."""
    package = Path(__file__).resolve().parents[2]
    manifest = package.parent / "pyproject.toml"
    if manifest.is_file() and 'name = "kvagent"' in manifest.read_text(encoding="utf-8"):
        return package.parent
    return package


class Toolbox:
    """The four tools, bound to a folder. ``call`` never raises for what an agent may get wrong."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """The result of one tool call as text, at most ``MAX_CHARS`` characters and a note."""
        tools: dict[str, Callable[..., str]] = {
            "list_files": self.list_files,
            "read_file": self.read_file,
            "grep": self.grep,
            "git_log": self.git_log,
        }
        if name not in tools:
            return f"error: there is no tool {name!r}; there are {', '.join(tools)}"
        try:
            text = tools[name](**arguments)
        except (TypeError, ValueError, OSError, re.error) as error:
            return f"error: {error}"
        if len(text) > MAX_CHARS:
            text = text[:MAX_CHARS] + "\n[cut here: the result is longer]"
        return text or "nothing found"

    def list_files(self, folder: str) -> str:
        """The first paths, relative to the root, a line each, and how many more there are."""
        paths = [self._name(path) for path in self._files(self._inside(folder))]
        more = [f"and {len(paths) - MAX_FILES} more"] if len(paths) > MAX_FILES else []
        return "\n".join(paths[:MAX_FILES] + more)

    def read_file(self, path: str, first: int = 1, last: int | None = None) -> str:
        """One file's lines ``first`` to ``last``; for several files the name between rulers before each."""
        found: list[Path] = []
        for pattern in path.split():
            matches = sorted(match for match in self.root.glob(pattern) if match.is_file())
            found += [self._inside(str(match)) for match in matches if match not in found]
        if not found:
            raise ValueError(f"no such file: {path}")
        texts: list[str] = []
        for file in found:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[
                first - 1 : last
            ]
            name = [RULER, self._name(file), RULER] if len(found) > 1 else []
            texts.append("\n".join(name + lines))
        return "\n".join(texts)

    def grep(self, pattern: str, folder: str) -> str:
        """``path:line: text`` of the first lines that match."""
        wanted = re.compile(pattern)
        hits: list[str] = []
        for file in self._files(self._inside(folder)):
            if file.suffix != ".py":
                continue
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            for number, line in enumerate(lines, 1):
                if wanted.search(line):
                    hits.append(f"{self._name(file)}:{number}: {line.strip()}"[:MAX_LINE])
                if len(hits) == MAX_HITS:
                    return "\n".join(hits)
        return "\n".join(hits)

    def git_log(self, limit: int) -> str:
        """``hash date subject`` of the latest commits."""
        # Without this check git would climb to a repository around us that is none of our business.
        if not (self.root / ".git").exists():
            return "this folder is no git checkout, so there is no history"
        command = ["git", "-C", str(self.root), "log", f"-{int(limit)}", "--format=%h %as %s"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except subprocess.TimeoutExpired:
            return "git took too long"
        return "\n".join(line[:MAX_LINE] for line in (done.stdout or done.stderr).splitlines())

    def _inside(self, path: str) -> Path:
        inside = (self.root / path).resolve()
        if not inside.is_relative_to(self.root):
            raise ValueError(f"{path} is outside the repository")
        return inside

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _files(self, folder: Path) -> Iterator[Path]:
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") or path.name in SKIPPED_FOLDERS or path.is_symlink():
                continue
            if path.is_dir():
                yield from self._files(path)
            else:
                yield path
