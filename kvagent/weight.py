"""How many bytes of KV cache does a conversation take?"""

from __future__ import annotations

from collections.abc import Callable

from kvagent.policy import KV


def kv_bytes(kv: KV) -> Callable[[int], int]:
    """Bytes, on one rank, of a sequence of so many tokens.

    Raises:
        ValueError: the model or the data type is not known; a sentence says what is.
    """
    from kvagent.kvmemory.memory import Storage, check, request_bytes
    from kvagent.model_geometry import read_model

    geometry = read_model(kv.model).geometry
    storage = Storage.of(kv.dtype, kv.tp)
    check(geometry, storage.types)
    return lambda tokens: request_bytes(geometry, tokens, storage)
