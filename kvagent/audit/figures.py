"""How is a figure written so that it is taken in at a glance, and known to be an estimate?"""

from __future__ import annotations

NONE = "–"
"""Where there is no figure."""
ABOUT = "≈"
"""In front of every figure that rests on an estimate."""

_SHORT = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def count(number: int | None, exact: bool = True) -> str:
    """``≈1,234``."""
    if number is None:
        return NONE
    return _about(_signed(f"{number:,}"), exact)


def change(number: int | None, exact: bool = True) -> str:
    """``+1,234``, ``−56``, ``0``."""
    if number is None:
        return NONE
    return _about(_signed(f"{number:+,}" if number else "0"), exact)


def short(number: float, exact: bool = True) -> str:
    """``1.24 M``, ``154 k``: three digits at most."""
    for unit, letter in _SHORT:
        # 999,600 is 1.00 M and not 1000 k.
        if abs(number) >= unit * 0.9995:
            scaled = number / unit
            digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
            return _about(_signed(f"{scaled:.{digits}f}"), exact) + f" {letter}"
    return _about(_signed(f"{number:.0f}"), exact)


def axis(number: int) -> str:
    """A round number: ``2.5 k``, ``150 k``, ``1 M``."""
    for unit, letter in _SHORT:
        if number >= unit:
            return f"{number / unit:g} {letter}"
    return str(number)


def share(part: float | None, exact: bool = True) -> str:
    """``97.4%``; 100% and 0% are said only of all and of nothing."""
    if part is None:
        return NONE
    if 0 < part < 0.0005:
        return _about("<0.1%", exact)
    if 0.9995 <= part < 1:
        return _about(">99.9%", exact)
    return _about("100%" if part == 1 else "0%" if part == 0 else f"{part:.1%}", exact)


def size(number: int | None, exact: bool = True) -> str:
    """Bytes in the largest unit of which there is one at least: ``1.50 GiB``, ``522 MiB``."""
    if number is None:
        return NONE
    for unit, name in _SIZES:
        if abs(number) >= unit:
            scaled = number / unit
            digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
            return _about(_signed(f"{scaled:,.{digits}f} {name}"), exact)
    return _about(_signed(f"{number:,} B"), exact)


def several(number: int, one: str, many: str = "") -> str:
    """``1 turn``, ``1,234 turns``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _signed(text: str) -> str:
    """With a minus that is as wide as the plus."""
    return text.replace("-", "−")


def _about(text: str, exact: bool) -> str:
    # Nothing is no estimate: where there was no break, nothing was wasted.
    return text if exact or text in ("0", "0%") else ABOUT + text
