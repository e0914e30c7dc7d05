"""How is this server's cache, and how busy is it, at this moment?"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

from kvagent.backends import llamacpp, vllm
from kvagent.backends.values import Condition, Fault, Fetch, Fetched, Server

_CONDITIONS: Mapping[str, Callable[[], Generator[Fetch, Fetched, Condition]]] = {
    "llama.cpp": llamacpp.condition,
    "vllm": vllm.condition,
}


def condition(server: Server) -> Generator[Fetch, Fetched, Condition]:
    """Asks for one or two GETs; a server of unknown kind says nothing."""
    ask = _CONDITIONS.get(server.kind)
    return Condition() if ask is None else (yield from ask())


def remedy(server: Server, fault: Fault) -> str | None:
    """What to set at this server against a fault; None where it has nothing to set."""
    return _REMEDIES.get(server.kind, {}).get(fault)


_REMEDIES: Mapping[str, Mapping[Fault, str]] = {
    "llama.cpp": llamacpp.REMEDIES,
    "vllm": vllm.REMEDIES,
}
