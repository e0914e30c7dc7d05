"""How does this server turn a chat request into the text of a prompt?"""

from __future__ import annotations

from kvagent.backends.prompt import Dialect
from kvagent.backends.values import Server


def dialect_of(server: Server) -> Dialect:
    """The server's dialect; vLLM's, which is Hugging Face's, for a server that is not known."""
    from kvagent.backends.llamacpp_prompt import LLAMACPP
    from kvagent.backends.vllm_prompt import VLLM

    return LLAMACPP if server.kind == LLAMACPP.name else VLLM
