"""Are files named so that one knows them, and no longer than need be?"""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.report.names import folder_of

NAMES = st.lists(st.sampled_from(["a", "ab", "b", "-", ".."]), min_size=1).map("/".join)


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        ([], ""),
        (["logs/one"], ""),
        (["logs/one", "logs/two"], "logs/"),
        (["logs/one", "logs/sub/two"], "logs/"),
        (["logs/one", "logs2/one"], ""),
        (["logs/one", "logs/one"], "logs/"),
        (["/tmp/logs/one", "/tmp/logs/two"], "/tmp/logs/"),
        (["/tmp/one", "/var/two"], ""),
        (["./one", "./two"], ""),
        (["../one", "../two"], "../"),
        (["one", "/two"], ""),
        (["-", "logs/one"], ""),
    ],
)
def test_the_folder_of_several_files(files: list[str], folder: str) -> None:
    assert folder_of([name.replace("/", os.sep) for name in files]) == folder.replace("/", os.sep)


@given(st.lists(NAMES, min_size=2), NAMES)
def test_every_file_is_in_their_folder(files: list[str], top: str) -> None:
    folder = folder_of(files)
    assert all(name.startswith(folder) and name != folder for name in files)
    below = [f"{top}/{name}" for name in files]
    assert folder_of(below).startswith(f"{top}/")
