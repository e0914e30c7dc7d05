"""Was it the server that refused a request, and in which words?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kvagent.backends import overflow_of
from kvagent.flow import Answer

# An error that comes within a stream has no status of its own.
_WITHIN_A_STREAM = 400


def refusal_of(error: BaseException) -> Answer | None:
    """The answer behind an exception that says the prompt is too long; None for any other."""
    cause: BaseException | None = error
    while cause is not None:
        answer = _answer(cause)
        if answer is not None and overflow_of(answer.status, answer.error) is not None:
            return answer
        cause = cause.__cause__
    return None


def _answer(error: BaseException) -> Answer | None:
    status = getattr(error, "status_code", None)
    if not isinstance(status, int) or status < 400:
        status = _WITHIN_A_STREAM
    content = _content(error)
    return None if content is None else Answer(status, content)


def _content(error: BaseException) -> bytes | None:
    """What the server wrote, as far as an SDK's exception keeps it."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, Mapping):
        try:
            return orjson.dumps(body if "error" in body else {"error": dict(body)})
        except TypeError:
            return None
    if isinstance(body, str):
        return body.encode()
    message = str(error)
    return message.encode() if message else None
