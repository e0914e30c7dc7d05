"""What does it look like at this server when other conversations took the cache's room?"""

from __future__ import annotations

from collections.abc import Mapping

from kvagent.backends import llamacpp, vllm
from kvagent.backends.values import Server
from kvagent.events import MissCause

_CAUSES: Mapping[str, MissCause] = {
    "llama.cpp": llamacpp.CROWDED_OUT,
    "vllm": vllm.CROWDED_OUT,
}


def crowded_out(server: Server | None) -> MissCause:
    """The cause to name; a server that is not known is taken for one with blocks."""
    return _CAUSES.get(server.kind if server else "", vllm.CROWDED_OUT)
