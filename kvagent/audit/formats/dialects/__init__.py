"""Which API was a body meant for?

The most particular is asked first: a chat request of OpenAI has nothing that the others lack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvagent.audit.formats.dialects import anthropic, chat, responses
from kvagent.audit.formats.dialects.call import Dialect

DIALECTS: tuple[Dialect, ...] = (responses.DIALECT, anthropic.DIALECT, chat.DIALECT)


def asking(body: Mapping[str, Any]) -> Dialect | None:
    """The dialect of a request's body."""
    return next((dialect for dialect in DIALECTS if dialect.asks(body)), None)


def answering(body: Mapping[str, Any]) -> Dialect | None:
    """The dialect of an answer's body."""
    return next((dialect for dialect in DIALECTS if dialect.answers(body)), None)
