"""What of a Markdown document stands?

Its headings, how each section begins, the first item of each list and the head of each table; then
the lines that tell most for their length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from kvagent.shorten.code import names_code
from kvagent.shorten.composition import Wish, compose
from kvagent.shorten.numbering import numbered_pieces, without_numbers
from kvagent.shorten.pieces import pieces_of
from kvagent.shorten.result import Shortened, count_lines
from kvagent.shorten.source import has_suffix

# Shares of the room.
_HEADINGS, _BEGINNINGS, _LISTS = 0.15, 0.1, 0.05

_SUFFIXES = (".md", ".markdown", ".mdx", ".rst", ".adoc")
_HEADING = re.compile(r"#{1,6} \S")
_SECTION_BEGINS = ("\n## ", "\n### ", "\n#### ")  # with one mark, it might be a comment
_FENCES = ("```", "~~~")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)]) \S")
_SECTIONS = 3  # so many, and it is a document
_LONG_LINE = 1000


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,
    known: AbstractSet[str] = frozenset(),
) -> Shortened | None:
    """Shortens a Markdown document to at most `budget` characters; None if `text` is none."""
    named = has_suffix(source, _SUFFIXES)
    if "\x1b" in text or "# " not in text or (names_code(source) and not named):
        return None
    bare = without_numbers(text)
    told = text if bare is None else bare
    sections = sum(map(f"\n{told}".count, _SECTION_BEGINS))
    if sections < (1 if named else _SECTIONS):
        return None
    if bare is not None:
        if len(max(bare.split("\n"), key=len)) > _LONG_LINE:
            return None
        pieces = numbered_pieces(text, bare)
        # The last line may be a number with nothing behind it.
        lines = (bare.removesuffix("\n") if text.endswith("\n") else bare).split("\n")
    else:
        pieces = pieces_of(text, longest=min(400, max(80, budget // 16)))
        if pieces.split * 2 > len(text):
            return None
        lines = list(pieces.texts)
    return compose(
        pieces,
        budget,
        outline_wishes(lines),
        total=count_lines(text),
        handle=handle,
        told="\n".join(lines),
        known=known,
    )


def outline_wishes(lines: Sequence[str]) -> tuple[Wish, ...]:
    """What of a document's lines shall stand before all others."""
    headings: list[tuple[int, int]] = []
    beginnings: list[int] = []
    lists: list[int] = []
    fenced = begun = in_block = False
    for index, line in enumerate(lines):
        bare = line.strip()
        if bare.startswith(_FENCES):
            fenced = not fenced
        elif fenced or not bare:
            in_block = in_block and fenced
            continue
        elif line[0] == "#" and _HEADING.match(line):
            headings.append((line.index(" "), index))
            begun = False
        elif not in_block and bare[0] == bare[-1] == "|" and len(bare) > 1:
            lists += [index, index + 1] if index + 1 < len(lines) else [index]
        elif not in_block and _ITEM.match(line):
            lists.append(index)
        elif not begun:
            beginnings.append(index)
            begun = True
        in_block = True
    return (
        Wish([index for _, index in sorted(headings)], _HEADINGS, through=True),
        Wish(beginnings, _BEGINNINGS, through=True),
        Wish(lists, _LISTS, through=True),
    )
