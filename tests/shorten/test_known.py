"""What changes when it is known what other results show?"""

from __future__ import annotations

import pytest

from kvagent.shorten import SHORTENERS, Shortener, shorten, words_of

LINES = [f"the {n} one of module_{n} calls function_{n} as 'part {n}'" for n in range(400)]


def test_words() -> None:
    text = "see src/app/main.py:12, please.\n  store.load(key_of=4711)"
    assert words_of(text) == [
        *("see", "src/app/main.py:12", "please", "\0"),
        *("store.load", "key_of", "4711", "\0"),
    ]


def test_names_that_stand_elsewhere_make_way_for_others() -> None:
    text = "\n".join(LINES)
    known = set(words_of("\n".join(LINES[:200])))
    before = shorten(text, 4000).text
    beside = shorten(text, 4000, known=known).text
    assert sum(f"function_{n} " in beside for n in range(200, 400)) > sum(
        f"function_{n} " in before for n in range(200, 400)
    )


def test_errors_and_the_last_line_stand_although_they_are_known() -> None:
    lines = [*LINES[:200], "error: no such module_7", *LINES[200:], "Process exited with code 1"]
    text = "\n".join(lines)
    shown = shorten(text, 4000, known=set(words_of(text))).text.split("\n")
    assert "error: no such module_7" in shown
    assert "Process exited with code 1" in shown


def test_it_is_all_known() -> None:
    text = "\n".join(LINES)
    result = shorten(text, 3000, known=set(words_of(text)))
    assert 2000 < len(result.text) <= 3000
    assert result.kept + result.dropped == len(LINES)


@pytest.mark.parametrize("shortener", SHORTENERS)
def test_every_type_takes_what_is_known(shortener: Shortener) -> None:
    text = "## One\n## Two\n## Three\ndef f(x):\nTraceback (most recent call last):\n" * 40
    result = shortener.shorten(text, 500, known={"One"})
    assert result is None or len(result.text) <= 500


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 300_000,
        "\r\n" * 100_000,
        (" " * 799 + "\n") * 200,
        ("public " * 140 + "x\n") * 200,
        "Traceback (most recent call last):\n" * 5_000,
        "diff --git a/x b/x\n@@ -1 +1 @@\n" * 5_000,
        "<!doctype html>" + "<a <b " * 20_000,
        "## a\n- b\n" * 20_000,
    ],
)
def test_odd_texts_take_no_longer_than_others(text: str) -> None:
    """Where the work grows with the square of the length, this does not end."""
    assert len(shorten(text, 3000).text) <= 3000
