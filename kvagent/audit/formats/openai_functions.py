"""Is this a log of OpenAI chat requests from the time before there were tools?

It is read as ``openai_chat`` is, which knows the older form, too; apart it stands for its name.
"""

from __future__ import annotations

from kvagent.audit.formats import exchange
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import chat, functions
from kvagent.audit.formats.fields import objects
from kvagent.audit.formats.format import Format


def _claims(contents: Contents) -> bool:
    return any(
        body.dialect is chat.DIALECT
        and (
            "functions" in body.body
            or any(
                message.get("role") == functions.ROLE or message.get(functions.CALL)
                for message in objects(body.body.get("messages"))
            )
        )
        for body in exchange.first_bodies(contents)
    )


FORMAT = Format("openai_functions", "OpenAI chat requests with functions", _claims, exchange.read)
