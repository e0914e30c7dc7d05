"""Is this a log of OpenAI's Responses API, or the items of a session with it?"""

from __future__ import annotations

from kvagent.audit.formats import exchange
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import responses
from kvagent.audit.formats.format import Format


def _claims(contents: Contents) -> bool:
    return any(body.dialect is responses.DIALECT for body in exchange.first_bodies(contents))


FORMAT = Format("openai_responses", "OpenAI Responses items", _claims, exchange.read)
