"""How is a text taken apart?"""

from __future__ import annotations

from kvagent.shorten.pieces import pieces_of


def test_lines() -> None:
    pieces = pieces_of("a\nb\nc\n", 100)
    assert list(pieces.texts) == ["a", "b", "c"]
    assert list(pieces.lines) == [1, 2, 3, 4]
    assert pieces.total_lines == 3


def test_parts_of_a_long_line_share_its_number() -> None:
    pieces = pieces_of("short\n" + "word " * 20 + "\nlast", 30)
    assert list(pieces.lines) == [1, 2, 2, 2, 2, 3, 4]
    assert [pieces.ends_line(i) for i in range(len(pieces))] == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]
    assert all(text.endswith(" ") for text in pieces.texts[1:5])
    assert pieces.whole() == "short\n" + "word " * 20 + "\nlast"


def test_a_run_keeps_the_numbers_of_what_follows() -> None:
    pieces = pieces_of("first line\n" + "the same again\n" * 7 + "last line", 100)
    assert list(pieces.texts) == ["first line", "the same again", "last line"]
    assert list(pieces.lines) == [1, 2, 9, 10]
    assert pieces.last_line(1) == 8
    assert pieces.times == {1: 7}


def test_characters_add_up_to_the_text() -> None:
    for text in ("a\nb", "a\nb\n", "\n\n", "x" * 500 + "\n" + "same line here\n" * 9 + "y"):
        pieces = pieces_of(text, 50)
        assert sum(map(pieces.characters, range(len(pieces)))) == len(text)
