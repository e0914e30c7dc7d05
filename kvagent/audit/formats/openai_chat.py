"""Is this a log of OpenAI chat requests, or the messages of a session?

A bare list of messages; ``{messages, tools}``; requests one a line, with or without what came back;
what kvagent itself reads and writes, ``{"body": ...}``.
"""

from __future__ import annotations

from kvagent.audit.formats import exchange
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import chat
from kvagent.audit.formats.format import Format


def _claims(contents: Contents) -> bool:
    return any(body.dialect is chat.DIALECT for body in exchange.first_bodies(contents))


FORMAT = Format("openai_chat", "OpenAI chat requests or messages", _claims, exchange.read)
