"""What does an engine hold in its memory, and what does it weigh?"""

from __future__ import annotations

from collections.abc import Iterator

from kvagent import Engine
from kvagent.entry import Entry
from kvagent.ledger import Ledger


def entries(ledger: Ledger) -> Iterator[Entry]:
    waiting = [tree.root for tree in ledger._trees.values()]
    while waiting:
        for siblings in waiting.pop().children.values():
            yield from siblings
            waiting += siblings


def weight(engine: Engine) -> int:
    kept = list(entries(engine.ledger))
    heads = {id(entry.head): entry.head.weight for entry in kept if entry.head}
    return sum(entry.weight for entry in kept) + sum(heads.values())
