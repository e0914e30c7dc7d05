"""Which lines of a stack trace say what was raised, and where?

Python's, with the exceptions that led to one another; those of JavaScript, Java and C#, whose
frames begin with "at".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

_FIRST_FRAMES = 3
_OWN_FRAMES = 5  # so many more, of those in the program's own files

_PYTHON = "Traceback (most recent call last):"
_PYTHON_FRAME = re.compile(r'[\s|+]*File "[^"]*", line \d+')
_AT_FRAME = re.compile(r"\s+at (?:.+[:(.]|<anonymous>)|\s+\.\.\. \d+ more")
_FOREIGN = re.compile(
    r"site-packages|dist-packages|node_modules|lib/python\d|<frozen|node:internal|\binternal/"
    r"|\s+at (?:java|javax|jdk|sun|scala|kotlin|System|Microsoft|org\.junit|org\.springframework)\."
    r"|\s+\.\.\. \d+ more"
)


def trace_lines(texts: Sequence[str]) -> Iterator[int]:
    """The indexes of the lines of all traces in `texts`, the most needed first.

    What was raised, of each; then its first frames and those in the program's own files.
    """
    messages: list[int] = []
    frames: list[int] = []
    index = 0
    while index < len(texts):
        if _PYTHON in texts[index]:
            index = _python(texts, index, messages, frames)
        elif _AT_FRAME.match(texts[index]):
            index = _at(texts, index, messages, frames)
        else:
            index += 1
    return chain(_from_the_ends(messages), frames)


def foreign_frames(texts: Sequence[str]) -> Iterator[int]:
    """The indexes of the lines of frames in files that are not the program's own."""
    for index, text in enumerate(texts):
        python = _PYTHON_FRAME.match(text)
        if (python or _AT_FRAME.match(text)) and _FOREIGN.search(text):
            yield index
            if python and index + 1 < len(texts):
                yield index + 1


def _python(texts: Sequence[str], begin: int, messages: list[int], frames: list[int]) -> int:
    """Reads one block of a traceback; gives the index of the line behind what was raised."""
    margin = texts[begin].index("T")
    starts: list[int] = []
    index = begin + 1
    while index < len(texts):
        text = texts[index]
        if _PYTHON_FRAME.match(text):
            starts.append(index)
        elif len(text) <= margin or (not text[margin].isspace() and text[margin] not in "|+"):
            break
        index += 1
    if index < len(texts) and texts[index].strip():
        messages.append(index)
    # The last frame is where it was raised; each has its line of code below it.
    own = [start for start in starts if not _FOREIGN.search(texts[start])]
    chosen = dict.fromkeys((*starts[-1:], *starts[:_FIRST_FRAMES], *own[-_OWN_FRAMES:]))
    frames.append(begin)
    for start in chosen:
        frames.append(start)
        if start + 1 < index and not _PYTHON_FRAME.match(texts[start + 1]):
            frames.append(start + 1)
    return max(index, begin + 1)


def _at(texts: Sequence[str], begin: int, messages: list[int], frames: list[int]) -> int:
    """Reads a run of frames below what was raised; gives the index of the line behind it."""
    if begin and texts[begin - 1].strip():
        messages.append(begin - 1)
    index = begin
    while index < len(texts) and _AT_FRAME.match(texts[index]):
        index += 1
    own = [at for at in range(begin, index) if not _FOREIGN.search(texts[at])]
    first = range(begin, min(index, begin + _FIRST_FRAMES))
    frames.extend(dict.fromkeys((*first, *own[:_OWN_FRAMES])))
    return index


def _from_the_ends(indexes: Sequence[int]) -> list[int]:
    """The first, the last, the second, the last but one, and so on: causes and outcomes."""
    pairs = zip(indexes, reversed(indexes), strict=True)
    return list(dict.fromkeys(chain.from_iterable(pairs)))
