"""Which sentences did somebody write himself, rather than paste?

Code and pasted data (fenced, quoted with ``>``, or within tags such as ``<file>``) are left out: what
stands in them was not said by the one who pasted it.
"""

from __future__ import annotations

import re

# Elements that hold what a program or another text said.
_DATA = (
    r"code|context|data|diff|doc(?:ument)?s?|example|excerpt|file[\w-]*|logs?|output|page|paste[\w-]*"
    r"|pre|quote|results?|search[\w-]*|snippet|source|stacktrace|std(?:err|in|out)|[\w-]*-std(?:err|out)"
    r"|text|tool[\w-]*|traceback|transcript|web[\w-]*"
)
_OPENING = re.compile(
    rf"^[ \t]*(?P<fence>`{{3,}}|~{{3,}})|<(?P<tag>{_DATA})(?:\s[^<>]*)?>|^[ \t]*>.*$",
    re.MULTILINE | re.IGNORECASE,
)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\(?\d{1,3}[.)]|#{1,6})\s+")
_END = re.compile(r"(?<=[.!?])[\"')\]]?\s+(?=[\"'(\[*`]?[^\W_])|(?<=[。！？])")
# A dot behind these ends no sentence.
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|no|nr|fig|z\.B|bzw)|\b[A-Za-z])\.$")
_MARKUP = re.compile(r"<[^<>]*>")
LONGEST = 600
"""Characters; what is longer is no sentence but a wall of text."""


def sentences_of(text: str) -> list[str]:
    """The sentences and list items of a text, in order, each as it stands there.

    A line that ends in a colon stands once more before them, together with the items under it:
    "Never touch:" says nothing without what follows.
    """
    own = _own(text) if any(mark in text for mark in ("```", "~~~", ">")) else text
    found: list[str] = []
    lines = own.split("\n")
    for number, line in enumerate(lines):
        if line.rstrip().endswith(":"):
            found += _with_items(lines, number)
        found += _sentences(line)
    return [sentence for sentence in found if sentence and len(sentence) <= LONGEST]


def _own(text: str) -> str:
    """The text with a line feed for each pasted part."""
    kept: list[str] = []
    start = at = 0
    unclosed: set[str] = set()  # what has no end behind one place has none behind a later one
    while (opening := _OPENING.search(text, at)) is not None:
        at = opening.end()
        fence, tag = opening["fence"], opening["tag"]
        if fence:
            end = text.find(f"\n{fence}", at)
            at = len(text) if end < 0 else end + 1 + len(fence)
        elif tag:
            closing = f"</{tag}>"
            end = -1 if closing in unclosed else text.find(closing, at)
            if end < 0:
                unclosed.add(closing)
                continue
            at = end + len(closing)
        kept.append(text[start : opening.start()])
        start = at
    return "\n".join([*kept, text[start:]])


def _with_items(lines: list[str], number: int) -> list[str]:
    end, size = number + 1, len(lines[number])
    while end < len(lines) and size <= LONGEST and _ITEM.match(lines[end]):
        size += len(lines[end])
        end += 1
    if end == number + 1:
        return []
    return ["\n".join((_ITEM.sub("", lines[number]).lstrip(), *lines[number + 1 : end])).rstrip()]


def _sentences(line: str) -> list[str]:
    item = _ITEM.match(line)
    start = item.end() if item is not None else 0
    found: list[str] = []
    for end in _END.finditer(line, start):
        if not _ABBREVIATION.search(line, start, end.start()):
            found.append(line[start : end.start()].strip())
            start = end.end()
    found.append(line[start:].strip())
    return [sentence for sentence in found if not _MARKUP.fullmatch(sentence)]
