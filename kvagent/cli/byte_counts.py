"""How is a number of bytes said so that people take it in?"""

from __future__ import annotations

GIB = 2**30

_UNITS = (("TiB", 2**40), ("GiB", GIB), ("MiB", 2**20), ("KiB", 2**10))


def said(count: int) -> str:
    """``1.50 GiB``: in the largest unit of which there is one at least."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:,.2f} {unit}"
    return f"{count:,} B"
