"""What is the longest prefix that these tokens share with anything seen before?"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TypeVar

Tokens = array  # of ids, typecode "i": slices of two compare at memory speed

S = TypeVar("S", "Tokens[int]", str, bytes)


def tokens(ids: object) -> Tokens[int]:
    """Any sequence of token ids in the form that this package compares fast."""
    if isinstance(ids, array) and ids.typecode in "iI" and ids.itemsize == 4:
        return array("i", ids.tobytes())  # far faster than number by number
    return array("i", ids)  # type: ignore[call-overload,no-any-return]


def begins(one: Tokens[int], other: Tokens[int]) -> bool:
    """Whether ``one`` is the beginning of ``other``: mostly its last token alone says that not."""
    size = len(one)
    if not size:
        return True
    return size <= len(other) and one[-1] == other[size - 1] and one == other[:size]


def common_prefix(one: S, other: S, start: int = 0) -> int:
    """How many tokens, or characters or bytes, are the same from the beginning on.

    The first ``start`` of them are known to be. In slices that first grow and then halve: a few dozen
    comparisons however long the prompt is.
    """
    end = min(len(one), len(other))
    step = 64
    while start < end and step:
        until = min(start + step, end)
        if one[start:until] == other[start:until]:
            start, step = until, step * 4
        else:
            end, step = until - 1, (until - start) // 2
    return start


@dataclass(slots=True)
class _Node:
    label: Tokens[int]
    below: dict[int, _Node] = field(default_factory=dict)


class Seen:
    """Every sequence added, as a tree that holds what they share once."""

    def __init__(self) -> None:
        self._root = _Node(tokens(()))

    def longest(self, sequence: Tokens[int]) -> int:
        """The length of the longest prefix of ``sequence`` that begins any sequence added."""
        node, at = self._root, 0
        while at < len(sequence) and (child := node.below.get(sequence[at])):
            rest = sequence[at : at + len(child.label)]
            same = common_prefix(child.label, rest)
            at += same
            if same < len(child.label):
                break
            node = child
        return at

    def add(self, sequence: Tokens[int]) -> None:
        """Remember ``sequence``; its tokens are copied."""
        node, at = self._root, 0
        while at < len(sequence):
            child = node.below.get(sequence[at])
            if child is None:
                if node.below or node is self._root:
                    node.below[sequence[at]] = _Node(sequence[at:])
                else:
                    node.label.extend(sequence[at:])  # what only grows stays one piece
                return
            same = common_prefix(child.label, sequence[at : at + len(child.label)])
            if same < len(child.label):
                lower = _Node(child.label[same:], child.below)
                child.label, child.below = child.label[:same], {lower.label[0]: lower}
            node, at = child, at + same
