"""Do words mean the rules that they name, and does the more particular one decide?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.rule import Rule
from kvagent.audit.selection import meant, selected
from kvagent.audit.settings import SettingsError

RULES = [
    Rule(f"KVA{code}", name, "error", "prefill", "s", "w", "f")
    for code, name in (
        (101, "clock-in-head"),
        (102, "tools-reordered"),
        (110, "head-edited"),
        (201, "message-edited"),
        (301, "template-drops"),
    )
]
CODES = frozenset(rule.code for rule in RULES)


def codes(word: str) -> list[str]:
    return [rule.code for rule in meant(word, RULES)]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("KVA101", ["KVA101"]),
        ("kva10", ["KVA101", "KVA102"]),
        ("KVA", sorted(CODES)),
        ("Head-Edited", ["KVA110"]),
    ],
)
def test_what_a_word_means(word: str, found: list[str]) -> None:
    assert codes(word) == found


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("KVA109", "KVA101"),
        ("clock-in-haed", "was clock-in-head meant"),
        ("E501", "`kvagent explain` lists them all"),
        ("", "lists them all"),
        ("101", ""),
    ],
)
def test_a_word_that_means_none(word: str, hint: str) -> None:
    with pytest.raises(SettingsError, match=f"{word} is no rule, .*{hint}"):
        codes(word)


def test_nothing_selected_is_everything() -> None:
    assert selected((), (), RULES) == CODES
    assert selected((), ("KVA1",), RULES) == {"KVA201", "KVA301"}
    assert selected(("KVA1",), (), RULES) == {"KVA101", "KVA102", "KVA110"}


def test_the_more_particular_word_decides() -> None:
    assert selected(("KVA101",), ("KVA1",), RULES) == {"KVA101"}
    assert selected(("KVA1",), ("clock-in-head",), RULES) == {"KVA102", "KVA110"}
    assert selected(("KVA1", "KVA101"), ("KVA10",), RULES) == {"KVA101", "KVA110"}
    assert selected(("KVA101",), ("KVA101",), RULES) == frozenset()


WORDS = st.lists(
    st.sampled_from(
        ["KVA", "KVA1", "KVA10", "KVA101", "KVA2", "clock-in-head", "template-drops", "kva3"]
    )
)


@given(WORDS, WORDS)
def test_the_order_of_words_does_not_matter(select: list[str], ignore: list[str]) -> None:
    chosen = selected(select, ignore, RULES)
    assert chosen <= CODES
    assert chosen == selected(select[::-1], ignore[::-1], RULES)
    for rule in RULES:
        if rule.code in ignore:
            assert rule.code not in chosen
