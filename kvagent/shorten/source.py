"""What does the call that made a text say of what the text holds?

A source is one string: a tool's name, and then the values it was called with, as in
``bash rg -n TODO src`` or ``read_file src/app.py``; or only a file's path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

_LONGEST = 500  # what a tool is and does stands first; one may be called with all of a file
_WORD = re.compile(r"[\w.+@~/\\:-]+")


def source_of(tool: str | None, arguments: str | Mapping[str, Any] | None) -> str | None:
    """A source for a call: the tool's name and its arguments' texts and numbers, in their order.

    `arguments` may be the JSON that a model wrote, whole or not.
    """
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            arguments = None
    words = [tool or ""]
    if isinstance(arguments, Mapping):
        for value in arguments.values():
            parts = value if isinstance(value, list) else [value]
            words += [str(part) for part in parts if isinstance(part, str | int | float)]
    return " ".join(words).strip()[:_LONGEST] or None


def names_one_of(source: str | None, commands: frozenset[str]) -> bool:
    """Whether a tool or a command of the source is one of `commands`, which are in small letters.

    A command may stand behind its folder, and a tool's name may hold it as a word: ``/usr/bin/rg``,
    ``search_files``, ``GrepTool``.
    """
    if source is None:
        return False
    for rank, word in enumerate(_words(source)):
        word = word.rpartition("/")[2]
        if word.lower() in commands:
            return True
        if rank == 0:
            parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", word)
            if any(part.lower() in commands for part in parts):
                return True
    return False


def has_suffix(source: str | None, suffixes: tuple[str, ...]) -> bool:
    """Whether the source names a file whose name ends so: ``.json``, in small letters."""
    return source is not None and any(word.lower().endswith(suffixes) for word in _words(source))


@lru_cache(maxsize=16)  # each type of content asks in turn
def _words(source: str) -> Sequence[str]:
    return _WORD.findall(source)
