"""Did a recorded exchange of HTTP go to a model, and with which request?

What a recorder of HTTP keeps, whatever the file: an address, two bodies, and a status. Which API a
call was meant for its body says; answers that were streamed are put together.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Any

from kvagent.audit.formats import exchange
from kvagent.audit.formats.dialects.call import Answered
from kvagent.audit.formats.fields import tokens
from kvagent.audit.formats.json_text import Broken, parsed_text
from kvagent.audit.transcript import Item, Place, Unreadable

# Other endpoints that take the same bodies.
_NO_CALLS = re.compile(r"/(embeddings|moderations|count_tokens|input_tokens|batches)\b")
_LONGEST_URL = 2000
_LARGEST = 1 << 26


def call(
    place: Place, url: str, sent: Any, came: Any, status: Any, time_s: float | None = None
) -> Iterator[Item]:
    """The request of an exchange; nothing where it went to no model.

    Args:
        place: where the exchange stands.
        url: where it went.
        sent: the request's body: an object, or a text.
        came: the response's, alike; None where none was kept.
        status: the response's status.
        time_s: when it was sent, in seconds since 1970.
    """
    if _NO_CALLS.search(url[:_LONGEST_URL]):
        return
    if isinstance(sent, str):
        try:
            sent = parsed_text(sent)
        except Broken:
            return
    found = exchange.body_of(sent) if isinstance(sent, dict) else None
    if found is None:
        return
    try:
        asked = found.dialect.asked(found.body)
    except Broken as error:
        yield Unreadable(place, str(error))
        return
    yield exchange.made(
        place,
        asked.messages,
        asked.tools,
        asked.options,
        _answered(came, status),
        exchange.conversation_of(found.body),
        time_s,
        whole=asked.complete,
        wire=True,
    )


def _answered(came: Any, status: Any) -> Answered:
    answered = exchange.answered_by(came) or Answered()
    code = tokens(status) or 0
    if code >= 400 and answered.error is None:
        said = came if isinstance(came, str) else ""
        return Answered(error=said[:500] or f"status {code}")
    return answered


def decoded(body: bytes) -> str:
    """The text of a body, which may be packed with gzip; what cannot be unpacked is empty."""
    if body.startswith(b"\x1f\x8b"):
        try:
            body = zlib.decompressobj(wbits=31).decompress(body, _LARGEST)
        except zlib.error:
            return ""
    return body.decode("utf-8", "replace")
