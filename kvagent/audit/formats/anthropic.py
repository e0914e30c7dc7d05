"""Is this a log of Anthropic's messages API, or the messages of a session with it?"""

from __future__ import annotations

from kvagent.audit.formats import exchange
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import anthropic
from kvagent.audit.formats.format import Format


def _claims(contents: Contents) -> bool:
    return any(body.dialect is anthropic.DIALECT for body in exchange.first_bodies(contents))


FORMAT = Format("anthropic", "Anthropic messages", _claims, exchange.read)
