"""Which request is written anew, and what comes of it?"""

from __future__ import annotations

from kvagent.chat import ChatRequest
from kvagent.fingerprint import identity
from tests.wire import Message, say, tool

MESSAGES = [say("system", "s"), say("user", "Zürich")]
TOOLS = [tool("read"), tool("list")]


def rewritten(raw: bytes, tools: list[Message] | None = None) -> bytes:
    """The request with another last message, and other tools."""
    request = ChatRequest.parse(raw)
    came = [identity(message) for message in request.messages]
    new = [*came[:-1], b'{"role":"user","content":"NEW"}']
    return request.rewritten(came, new, None if tools is None else identity(tools))
