"""What did real servers say, for tests that run without one?

A file of ``recorded`` holds one vLLM: its settings, and scenarios of requests that were sent one after the other to an
empty cache. Prompts and answers are token ids, written as the letters of these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import orjson

from kvagent.prefixcache import PromptTooLong
from kvagent.prefixcache.blocks import BlockCache

FOLDER = Path(__file__).parent / "recorded"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, its answer, and what the server said of its cache; None if it refused."""

    prompt: str
    answer: str
    cached: int | None
    salt: str | None = None
    lora: str | None = None
    read: bool = True

    def json(self) -> Mapping[str, Any]:
        """Without what is usual."""
        said = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, usual) in said.items() if value != usual}


@dataclass(frozen=True, slots=True)
class Recording:
    """One server."""

    settings: Mapping[str, Any]
    """Arguments of ``BlockCache``."""
    scenarios: Mapping[str, Sequence[Exchange]]

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read a file of ``FOLDER``."""
        value = orjson.loads(path.read_bytes())
        scenarios = {
            name: [Exchange(**exchange) for exchange in exchanges]
            for name, exchanges in value["scenarios"].items()
        }
        return cls(value["settings"], scenarios)

    def save(self, path: Path) -> None:
        """One exchange a line."""
        scenarios = ",\n".join(
            f"{_text(name)}: [\n" + ",\n".join(_text(one.json()) for one in exchanges) + "\n]"
            for name, exchanges in self.scenarios.items()
        )
        settings = _text(self.settings)
        path.write_text(
            f'{{"settings": {settings}, "scenarios": {{\n{scenarios}\n}}}}\n', encoding="utf-8"
        )


def _text(value: object) -> str:
    return orjson.dumps(value).decode()


def written(ids: Sequence[int]) -> str:
    """Token ids as letters."""
    return "".join(map(chr, ids))


def predicted(cache: BlockCache, exchanges: Sequence[Exchange]) -> list[int | None]:
    """What a simulator says of each request, the cache being empty at first."""
    said: list[int | None] = []
    for one in exchanges:
        try:
            running = cache.begin(
                [*map(ord, one.prompt)], salt=one.salt, lora=one.lora, read=one.read
            )
        except PromptTooLong:
            said.append(None)
        else:
            running.finish([*map(ord, one.answer)])
            said.append(running.hit.cached_tokens if running.hit else None)
    return said
