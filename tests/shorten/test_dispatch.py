"""Which shortener takes a text?"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import pytest

import kvagent.shorten as package
from kvagent.shorten import Shortened, shorten


class Rows:
    """Knows texts that begin with "rows:"."""

    def __init__(self) -> None:
        self.sources: list[str | None] = []

    def shorten(
        self,
        text: str,
        budget: int,
        *,
        handle: str | None = None,
        source: str | None = None,
        known: AbstractSet[str] = frozenset(),
    ) -> Shortened | None:
        self.sources.append(source)
        if not text.startswith("rows:"):
            return None
        return Shortened("rows", 1, 9, "lines", lossless=False)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    rows = Rows()
    monkeypatch.setattr(package, "SHORTENERS", (rows, *package.SHORTENERS))
    return rows


def test_the_first_that_knows_the_type_takes_it(rows: Rows) -> None:
    assert shorten("rows:" + "x\n" * 500, 300).text == "rows"


def test_a_text_of_no_known_type_goes_to_the_last(rows: Rows) -> None:
    shortened = shorten("".join(f"line {i}\n" for i in range(500)), 300, source="bash")
    assert shortened.text.startswith("[… ")
    assert rows.sources == ["bash"]


def test_what_fits_is_not_even_looked_at(rows: Rows) -> None:
    assert shorten("rows: 1, 2, 3", 13) == Shortened("rows: 1, 2, 3", 1, 0, "lines", lossless=True)
    assert rows.sources == []


def test_what_was_shortened_before_is_left_alone(rows: Rows) -> None:
    text = "".join(f"line {i}\n" for i in range(500))
    once = shorten(text, 400, handle="r17")
    assert shorten(once.text, 200, handle="r18").text == once.text
    assert len(rows.sources) == 1
