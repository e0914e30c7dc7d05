"""Which messages stand in another form than they were first sent in?

An edit of what was sent is data: made once, in one batch, then replayed with every turn of the
conversation that goes on from it. Branches that left before it know nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvagent.fingerprint import digest

if TYPE_CHECKING:
    from kvagent.compaction.tiers import Tier


@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """The forms that stand in place of those first sent, by the message's depth."""

    forms: Mapping[int, bytes]
    """Empty where a message is left out."""
    tiers: tuple[Tier, ...] = ()
    """The narratives that stand in the record of old turns; their ranges are depths."""
    _key: list[bytes] = field(default_factory=list, init=False)

    @property
    def key(self) -> bytes:
        """A digest of all of it."""
        if not self._key:
            self._key.append(digest(*(b"%d:%b" % pair for pair in sorted(self.forms.items()))))
        return self._key[0]

    @property
    def name(self) -> tuple[object, ...]:
        """Equal for edits that may stand for each other."""
        return (self.key,)

    @property
    def weight(self) -> int:
        """Bytes held in memory, roughly."""
        return sum(100 + len(form) for form in self.forms.values())

    def with_more(self, forms: Mapping[int, bytes], tiers: tuple[Tier, ...] | None) -> Revision:
        """These and further ones, which go before; None leaves the narratives as they are."""
        return Revision({**self.forms, **forms}, self.tiers if tiers is None else tiers)


def forms_of(sent: Iterable[bytes], edits: Revision | None) -> list[bytes]:
    """The messages of a path as they stand, first message first; those left out are not there."""
    if edits is None:
        return list(sent)
    forms = (edits.forms.get(depth, form) for depth, form in enumerate(sent, 1))
    return [form for form in forms if form]
