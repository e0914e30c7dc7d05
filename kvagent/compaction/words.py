"""How is a set of words written so that it can be read?"""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """The words of a text that is nothing but words."""
    return frozenset(text.split())
