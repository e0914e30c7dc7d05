"""Are exactly the files found that somebody means?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvagent.audit.files import File, files_of


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
