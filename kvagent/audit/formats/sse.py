"""What are the events in the text of a stream?

Server-sent events, as the servers of all makers send them and as proxies and cassettes keep them.
"""

from __future__ import annotations

from typing import Any

from kvagent.audit.formats.json_text import Broken, parsed_text

_OPENINGS = ("data:", "event:", "id:", ": ", ":\n")


def looks_like_it(text: str) -> bool:
    """Whether a text is such a stream."""
    return text.lstrip().startswith(_OPENINGS)


def events(text: str) -> list[Any]:
    """The JSON values of the events, in order; what is not JSON, as ``[DONE]``, is left out."""
    values = []
    for event in text.replace("\r\n", "\n").split("\n\n"):
        data = "\n".join(line[5:].strip() for line in event.split("\n") if line.startswith("data:"))
        if data:
            try:
                values.append(parsed_text(data))
            except Broken:
                continue
    return values
