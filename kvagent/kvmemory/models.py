"""Which models are known by name?

A table of well-known ones, each with the part of its ``config.json`` that memory depends on, so that
a name is read exactly as the file is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from kvagent.kvmemory.geometry import Geometry, Weights
from kvagent.kvmemory.huggingface import geometry

# What authors and quantisers add to a name without changing the sizes.
_ADDED = re.compile(
    r"[-_ .](?:instruct|chat|it|base|hf|pt|thinking|gguf|awq|gptq|fp8|bf16|bnb|[48]bit|int[48]"
    r"|q\d\w*|\d{4})(?=[-_ .]|$)"
)


class UnknownModel(ValueError):
    """No such name in the table; the message names the nearest."""


@dataclass(frozen=True, slots=True)
class Model:
    """A row of the table."""

    name: str
    source: str
    """Where its numbers are from."""
    config: dict[str, Any]
    billions: float
    active_billions: float | None = None
    aliases: tuple[str, ...] = ()

    def geometry(self) -> Geometry:
        """Its geometry; the weights as published where the configuration does not give them."""
        found = geometry(self.config, self.name)
        if found.weights.parameters is not None:
            return found
        active = self.active_billions or self.billions
        return replace(found, weights=Weights(round(self.billions * 1e9), round(active * 1e9)))


@cache
def models() -> tuple[Model, ...]:
    """The table."""
    text = files("kvagent.kvmemory").joinpath("models.json").read_text(encoding="utf-8")
    return tuple(
        Model(**{**row, "aliases": tuple(row.get("aliases", ()))})
        for row in json.loads(text)["models"]
    )


def model(name: str) -> Model:
    """The model of that name, in whatever case, with or without its author and ``-Instruct``.

    Raises:
        UnknownModel: it is not in the table.
    """
    named = {_key(known): found for found in models() for known in (found.name, *found.aliases)}
    wanted = _key(name)
    if wanted in named:
        return named[wanted]
    near = get_close_matches(wanted, named, n=3, cutoff=0.5)
    hint = ", ".join(dict.fromkeys(named[key].name for key in near))
    raise UnknownModel(
        f"there is no model {name!r} in the table" + (f", the nearest are {hint}" if hint else "")
    )


def _key(name: str) -> str:
    short = name.strip().lower().rsplit("/", 1)[-1]
    return re.sub(r"[^a-z0-9.]", "", _ADDED.sub("", short))
