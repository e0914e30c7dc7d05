"""Is a shortened text told from others?"""

from __future__ import annotations

import pytest

from kvagent.shorten.marker import footer, is_marked, marker
from kvagent.shorten.result import Unit


@pytest.mark.parametrize("unit", ["lines", "characters"])
@pytest.mark.parametrize("handle", [None, "r17ab"])
@pytest.mark.parametrize("notes", [[], ["repeats folded"], ["terminal codes removed", "x y"]])
@pytest.mark.parametrize("kept", [0, 7, 20])
def test_every_marker_is_known_again(
    unit: Unit, handle: str | None, notes: list[str], kept: int
) -> None:
    line = marker(kept, 20, unit, handle, notes)
    assert is_marked(line)
    assert is_marked(line + "\nmore")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[kvagent: ",
        "[kvagent: 3 of 4 lines shown",
        "see [… 3 of 4 lines shown]",
        "[… 3 of 4 lines shown] and more on the line",
        "[… 3-4]",
    ],
)
def test_nothing_else_is(text: str) -> None:
    assert not is_marked(text)


def test_footer_names_what_fits_and_nothing_twice() -> None:
    names = ["src/a/b.py", "a/b.py", "in_the_text", "x" * 50, "user_name"]
    assert footer(names, "… in_the_text …", 45) == "[among the rest: src/a/b.py, user_name]"
    assert footer(names, "", 20) == ""
    assert footer([], "", 100) == ""
