"""Are files named so that one knows them, and no longer than need be?"""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.names import called, folder_of, placed
from kvagent.audit.session import Failed, Gate, Report
from kvagent.audit.transcript import Place, Unreadable
from tests.audit.report.forms import written
from tests.audit.report.reports import CLOCK, finding, row, session, spot

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


def test_a_file_and_a_place_in_it() -> None:
    assert called("logs/one", "logs/") == "one"
    assert called("-") == "standard input"
    assert called("./-", "./") == "-"
    assert placed(Place("-", 3, ".messages")) == "standard input:3 .messages"
    assert placed(Place("one", None)) == "one"


@pytest.mark.parametrize("form", ["terminal", "html", "markdown"])
@pytest.mark.parametrize("alone", [True, False])
def test_people_read_of_standard_input(form: str, alone: bool) -> None:
    if form == "html":
        pytest.importorskip("jinja2", reason="needs the extra `audit`")
    text = written(from_standard_input(alone=alone), form)
    assert "standard input" in text
    assert "standard input:9" in text
    words = re.sub(r"<[^>]*>|[`*|,:]", " ", re.sub(r"(?s)<(style|script)>.*?</\1>", " ", text))
    assert not [line for line in words.splitlines() if re.search(r"(^|\s)-(:\d|\s*$)", line)]


@pytest.mark.parametrize(
    ("form", "wanted"),
    [("as_json", '"file": "-"'), ("sarif", '"uri": "-"'), ("github", "::error ")],
)
def test_programs_get_the_name_that_was_given(form: str, wanted: str) -> None:
    text = written(from_standard_input(alone=True), form)
    assert wanted in text
    assert "standard input" not in text


def from_standard_input(*, alone: bool) -> Report:
    """A report that names it wherever a file is named."""
    rows = [row(1, place=Place("-", 1)), row(2, place=Place("-", 2))]
    found = finding(CLOCK, spot(2, place=Place("-", 2)), spot(3, place=Place("-", 3)))
    unread = [Unreadable(Place("-", 9), "is no JSON")]
    read = session("-", rows=rows, findings=[found], unreadable=unread, unreadable_count=1)
    gates = [Gate("baseline", failed=True, said="An error is new.", file="-")]
    others = [] if alone else [session("logs/one")]
    return Report([read, *others], [Failed("none", "none cannot be read.")], gates)
