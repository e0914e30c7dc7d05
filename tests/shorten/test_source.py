"""What does a call tell of its result?"""

from __future__ import annotations

import pytest

from kvagent.shorten import source_of
from kvagent.shorten.source import has_suffix, names_one_of

SEARCH = frozenset(("grep", "rg", "search"))


@pytest.mark.parametrize(
    ("tool", "arguments", "source"),
    [
        ("bash", '{"command": "rg -n TODO src"}', "bash rg -n TODO src"),
        ("read_file", {"path": "src/app.py", "limit": 20}, "read_file src/app.py 20"),
        ("shell", {"command": ["ls", "-l"]}, "shell ls -l"),
        ("read", '{"path": "cut of', "read"),
        ("read", "[1, 2]", "read"),
        ("now", None, "now"),
        (None, None, None),
        ("", {}, None),
    ],
)
def test_name_and_values(tool: str | None, arguments: object, source: str | None) -> None:
    assert source_of(tool, arguments) == source  # type: ignore[arg-type]


def test_a_file_that_is_written_is_not_all_of_the_source() -> None:
    source = source_of("write", {"path": "a.py", "content": "x" * 100_000})
    assert source is not None
    assert source.startswith("write a.py xxx")
    assert len(source) <= 500


@pytest.mark.parametrize(
    "source",
    [
        "grep",
        "Grep",
        "GrepTool x",
        "search_files a",
        "bash cd /x && /usr/bin/rg -n y",
        "bash git grep x",
    ],
)
def test_commands_that_are_named(source: str) -> None:
    assert names_one_of(source, SEARCH)


@pytest.mark.parametrize("source", [None, "", "bash ls research", "read grep.py", "agrep x"])
def test_commands_that_are_not(source: str | None) -> None:
    assert not names_one_of(source, SEARCH)


def test_suffixes() -> None:
    assert has_suffix("bash head data/Users.CSV | tail", (".csv",))
    assert not has_suffix("read users.csv.gz", (".csv",))
    assert not has_suffix(None, (".csv",))
