"""Where do special tokens stand?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.tokens.specials import Specials

IDS = {"<s>": 0, "<|a|>": 1, "<|a|><s>": 2, "aa": 3, "é": 4}


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("x", ["x"]),
        ("<s>", [0]),
        ("x<s>y", ["x", 0, "y"]),
        ("<s><s>", [0, 0]),
        ("<|a|><s>", [2]),
        ("<|a|><|a|><s>", [1, 2]),
        ("aaa", [3, "a"]),
        ("xéy", ["x", 4, "y"]),
        ("<|a", ["<|a"]),
    ],
)
def test_the_longest_goes_first(text: str, pieces: list[str | int]) -> None:
    assert Specials(IDS).split(text) == pieces


def test_the_longest_goes_first_even_further_on() -> None:
    """Not what stands first, as in other tokenizers."""
    assert Specials({"ab": 0, "bcd": 1}).split("abcd") == ["a", 1]


def test_some_take_the_blanks_behind_them_along() -> None:
    specials = Specials({"<a>": 0, "<b>": 1}, swallowing={0})
    assert specials.split("<a> \n x<b> y") == [0, "x", 1, " y"]


@given(st.text("<s>|aé x", max_size=30))
def test_nothing_is_lost(text: str) -> None:
    texts = {at: token for token, at in IDS.items()}
    pieces = Specials(IDS).split(text)
    assert "".join(texts[each] if isinstance(each, int) else each for each in pieces) == text
    plain = [each for each in pieces if isinstance(each, str)]
    assert all(plain)
    assert not any(token in each for each in plain for token in IDS)
