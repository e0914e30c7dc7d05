"""Where does a record begin and end in a text?"""

from __future__ import annotations

import re

from kvagent.fingerprint import digest

_BEGINS = re.compile(r"\s*\[kvagent record [0-9a-f]{8}: ")
_ANYWHERE = re.compile(r"\n*\[kvagent record ([0-9a-f]{8}): ")


def enclosed(body: str, about: str) -> str:
    """A record: its name follows from what it holds, so that nothing in it can know it before."""
    name = digest(body.encode("utf-8", "surrogatepass")).hex()[:8]
    return f"[kvagent record {name}: {about}.]\n{body}\n{_closing(name)}"


def is_record(text: str) -> bool:
    """Whether a text is a record, or begins with one."""
    return _BEGINS.match(text) is not None


def without_records(text: str) -> str:
    """The text without the records in it."""
    while (start := _ANYWHERE.search(text)) is not None:
        closing = _closing(start[1])
        end = text.find(closing, start.end())
        if end < 0:
            break
        text = text[: start.start()] + text[end + len(closing) :]
    return text


def _closing(name: str) -> str:
    return f"[end of kvagent record {name}]"
