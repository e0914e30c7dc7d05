"""How does this server turn a chat request into the text of a prompt?"""

from __future__ import annotations

from kvagent.backends.prompt import Dialect
from kvagent.backends.values import Server


def dialect_of(server: Server) -> Dialect:
    """The server's dialect, as if it was started with no variables for its template.

    Some llama.cpp servers keep old reasoning by themselves (``--reasoning-preserve``), some do
    not, and they do not say; a request that asks for it is right for both. A server that is not
    known has vLLM's dialect, which is Hugging Face's.
    """
    from kvagent.backends import llamacpp_prompt, vllm_prompt

    if server.kind == llamacpp_prompt.LLAMACPP.name:
        return llamacpp_prompt.dialect({})
    return vllm_prompt.VLLM
