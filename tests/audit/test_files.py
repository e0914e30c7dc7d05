"""Are exactly the files found that somebody means?"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.files import File, files_of
from kvagent.audit.run import audit_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with logs in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("logs/b.jsonl", "logs/a/z.json", "logs/a/ä.json", "logs/B.jsonl", "one.json"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    (tmp_path / "logs/.hidden").mkdir()
    (tmp_path / "logs/.hidden/x.json").write_text("{}")
    (tmp_path / "logs/.DS_Store").write_text("{}")
    return tmp_path


def paths(*sources: str) -> list[str]:
    return [file.path for file in files_of(sources)]


def test_a_folder_is_walked_in_the_order_of_names(folder: Path) -> None:
    assert paths("logs") == ["logs/B.jsonl", "logs/a/z.json", "logs/a/ä.json", "logs/b.jsonl"]
    assert not any(file.named for file in files_of(["logs"]))


def test_files_stay_in_the_order_in_which_they_were_named(folder: Path) -> None:
    assert paths("one.json", "-", "logs/b.jsonl", "logs/a") == [
        "one.json",
        "-",
        "logs/b.jsonl",
        "logs/a/z.json",
        "logs/a/ä.json",
    ]


def test_each_file_is_meant_once(folder: Path) -> None:
    assert paths("one.json", "./one.json", str(folder / "one.json")) == ["one.json"]
    assert paths("-", "-") == ["-"]
    # Who names a file in a folder as well means it: it is no stranger there.
    files = files_of(["logs", "logs/b.jsonl"])
    assert File("logs/b.jsonl", named=True) in files
    assert len(files) == 4


def test_what_is_not_there_is_left_to_who_opens_it(folder: Path) -> None:
    assert files_of(["none.json"]) == [File("none.json", named=True)]


@pytest.fixture
def forbidden(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder that cannot be looked into, not even by root."""
    look = os.scandir

    def scandir(path: Path) -> Any:
        if Path(path) == Path("logs/a"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return "logs/a"


@pytest.mark.parametrize("source", ["logs", "logs/a"])
def test_a_folder_that_cannot_be_looked_into_is_told(forbidden: str, source: str) -> None:
    assert File(forbidden, named=False, closed="Permission denied") in files_of([source])
    report = audit_files([source])
    assert [(each.file, each.why) for each in report.failed] == [
        (forbidden, f"{forbidden} cannot be read: Permission denied.")
    ]
    assert forbidden not in report.passed_over


def test_what_is_within_a_folder_that_cannot_be_entered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files can be listed, and nothing about them asked."""

    def stat(path: object, **_: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "stat", stat)
    assert paths("logs/b.jsonl") == ["logs/b.jsonl"]  # who opens it will say why
    monkeypatch.setattr(os.path, "isdir", "logs".__eq__)
    assert paths("logs") == ["logs/B.jsonl", "logs/a/z.json", "logs/a/ä.json", "logs/b.jsonl"]


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_links(folder: Path) -> None:
    (folder / "logs/loop").symlink_to(folder / "logs", target_is_directory=True)
    (folder / "logs/link.json").symlink_to(folder / "one.json")
    (folder / "logs/broken.json").symlink_to(folder / "nowhere.json")
    os.mkfifo(folder / "logs/pipe")
    assert paths("logs") == [
        "logs/B.jsonl",
        "logs/a/z.json",
        "logs/a/ä.json",
        "logs/b.jsonl",
        "logs/link.json",
    ]
