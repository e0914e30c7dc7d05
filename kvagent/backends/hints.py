"""In which fields does a request tell this server what it wishes of the cache?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvagent.backends import llamacpp, vllm
from kvagent.backends.values import Server, Wish

_FIELDS: Mapping[str, Callable[[Wish], dict[str, Any]]] = {
    "llama.cpp": llamacpp.hint_fields,
    "vllm": vllm.hint_fields,
}


def hint_fields(server: Server, wish: Wish) -> dict[str, Any]:
    """The fields that say ``wish`` to this server; none where it has none for it."""
    fields = _FIELDS.get(server.kind)
    return {} if fields is None else fields(wish)
