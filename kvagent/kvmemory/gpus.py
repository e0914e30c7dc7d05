"""How much memory, bandwidth and compute has a GPU?"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

GIB = 2**30


class UnknownGPU(ValueError):
    """Neither a name in the table nor numbers; the message says what may be given."""


@dataclass(frozen=True, slots=True)
class GPU:
    """One GPU, or the part of a machine's memory that takes its place."""

    name: str
    gib: float
    """Memory in GiB."""
    gb_per_s: float | None = None
    """Bandwidth of that memory in 10⁹ bytes a second; None: not known."""
    tflops: float | None = None
    """Dense bf16 multiplications and additions, 10¹² a second; None: not known."""
    source: str = "as given"
    aliases: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Memory in bytes."""
        return int(self.gib * GIB)


@cache
def gpus() -> tuple[GPU, ...]:
    """The table."""
    text = files("kvagent.kvmemory").joinpath("gpus.json").read_text(encoding="utf-8")
    return tuple(
        GPU(**{**row, "aliases": tuple(row.get("aliases", ()))}) for row in json.loads(text)["gpus"]
    )


def gpu(text: str) -> GPU:
    """A GPU by its name in whatever case, or by ``GiB[,GB/s[,TFLOPS]]``.

    Raises:
        UnknownGPU: it is neither.
    """
    named = {_key(name): found for found in gpus() for name in (found.name, *found.aliases)}
    if found := named.get(_key(text)):
        return found
    numbers = text.split(",")
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*(gi?b)?\s*", numbers[0], re.IGNORECASE):
        return _from_numbers(text, numbers)
    near = get_close_matches(_key(text), named, n=3, cutoff=0.4)
    names = dict.fromkeys(named[key].name for key in near) or [found.name for found in gpus()]
    raise UnknownGPU(
        f"there is no GPU {text!r} in the table: take one of {', '.join(names)}, "
        "or give its memory as GiB[,GB/s[,TFLOPS]]"
    )


def _from_numbers(text: str, numbers: list[str]) -> GPU:
    if len(numbers) > 3:
        raise UnknownGPU(f"{text!r} has more than the three numbers GiB, GB/s and TFLOPS")
    values: list[float | None] = []
    for number in numbers:
        try:
            value = float(re.sub(r"(?i)\s*(gi?b(/s)?|tflops)?\s*$", "", number))
        except ValueError:
            value = math.nan
        if not 0 < value < 1e9:
            raise UnknownGPU(f"{number.strip()!r} in {text!r} is no number above 0")
        values.append(value)
    gib, gb_per_s, tflops, *_ = [*values, None, None]
    assert gib is not None
    return GPU(f"{gib:g} GiB", gib, gb_per_s, tflops)


def _key(name: str) -> str:
    short = re.sub(r"^(nvidia|amd|apple|geforce)[ -]", "", name.strip().lower())
    return re.sub(r"[^a-z0-9]", "", short)
