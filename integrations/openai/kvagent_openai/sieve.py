"""Which part of a stream has to wait until it is known whom a call is for?

Text is passed on as it comes. From the first tool call on, events wait for the end of the reply:
if it asks kvagent for something, the caller never sees them.
"""

from __future__ import annotations

import re

import orjson

_END = re.compile(rb"\r?\n\r?\n")


class Sieve:
    """Takes the chunks of a stream of server-sent events, and gives what may be passed on."""

    def __init__(self) -> None:
        self._rest = b""
        self._held: list[bytes] = []

    def passed(self, chunk: bytes) -> bytes:
        """What of the chunk, and of those before, need not wait."""
        self._rest += chunk
        passed: list[bytes] = []
        while (end := _END.search(self._rest)) is not None:
            event, self._rest = self._rest[: end.end()], self._rest[end.end() :]
            waits = self._held or _calls(event)
            (self._held if waits else passed).append(event)
        return b"".join(passed)

    def held(self) -> bytes:
        """All that waits."""
        held = b"".join((*self._held, self._rest))
        self._held, self._rest = [], b""
        return held


def _calls(event: bytes) -> bool:
    """Whether a tool is called in an event; what is no event of a reply calls none."""
    if b'"tool_calls"' not in event:
        return False
    try:
        data = orjson.loads(event.strip().removeprefix(b"data:"))
        return any(choice["delta"].get("tool_calls") for choice in data["choices"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return True
