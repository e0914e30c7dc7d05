"""Which HTTP library made this object: httpx, httpx2, or one that is like them?

The SDK rides on httpx up to 2.x and on httpx2 from 3.x on, and takes a client of httpx there too.
Nothing of the two may be mixed, so the library is asked of the object at hand, never imported.
"""

from __future__ import annotations

import sys
from typing import Any


def library_of(thing: object) -> Any:
    """The module with the ``Client``, ``Response`` and stream classes that fit ``thing``."""
    for base in type(thing).__mro__:
        module = sys.modules.get(base.__module__.partition(".")[0])
        if hasattr(module, "SyncByteStream") and hasattr(module, "AsyncClient"):
            return module
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    raise TypeError(f"a {kind} is of neither httpx nor httpx2")
