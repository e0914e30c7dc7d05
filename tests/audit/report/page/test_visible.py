"""Is no character of a text missed, and moves none what stands behind it?"""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.report.page.visible import character, close, visible


@given(st.text(st.characters()))
def test_what_cannot_be_seen_is_named(text: str) -> None:
    shown = visible(text)
    shown.encode()
    for each in shown:
        if each in "\n\t\u200d":
            continue
        assert unicodedata.category(each) not in {"Cc", "Cs"}, hex(ord(each))
        assert unicodedata.bidirectional(each) not in {
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        }
    assert visible(shown) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "Sm", "Sc"])))
def test_what_can_be_seen_stays(text: str) -> None:
    if not set(text) & set("\u115f\u1160\u3164\uffa0"):
        assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\x00b", "a⟨U+0000⟩b"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("\ud83d", "⟨U+D83D⟩"),
        ("a\u200bb\ufeff", "a⟨U+200B⟩b⟨U+FEFF⟩"),
        ("line\r\n\tnext", "line⟨U+000D⟩\n\tnext"),
        # An emoji of three stays one.
        ("👩\u200d💻", "👩\u200d💻"),
        ("עברית", "עברית"),
    ],
)
def test_at_a_glance(text: str, wanted: str) -> None:
    assert visible(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("a\n\tb", "a↵\n⇥\tb"), ("a\xa0b\u200dc", "a⟨U+00A0⟩b⟨U+200D⟩c"), ("plain", "plain")],
)
def test_closely(text: str, wanted: str) -> None:
    assert close(text) == wanted


@given(st.characters())
def test_a_character_that_is_pointed_at_is_seen(one: str) -> None:
    assert character(one).strip()
