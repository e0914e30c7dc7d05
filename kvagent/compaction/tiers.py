"""Which narratives are made one, when all of them together take too much?

Each stands for a range of its own and stays as it is until then. As in a log-structured merge tree,
neighbours of one level are merged into one of the next, oldest first, so that a line is merged about
log n times in n compactions. Merging rewords nothing: a line stays as the model wrote it, or goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvagent.compaction import narrative as form

Count = Callable[[str], int]

# What is true of one moment only: of these sections the newest alone says how things stand.
_OF_THE_MOMENT = (form.CURRENT, form.PENDING, form.NEXT, form.UNKNOWN)
# What is needed longest, first.
_ENDURING = (form.DECIDED, form.FAILED, form.FOUND, form.DONE)


@dataclass(frozen=True, slots=True)
class Tier:
    """A narrative and the messages that it stands for."""

    first: int
    last: int
    """Of the messages, counted as the agent does; ``last`` is behind the range."""
    text: str
    tokens: int
    level: int = 0
    """How often its oldest line was merged."""


def settled(tiers: Sequence[Tier], cap: int, count_tokens: Count) -> tuple[Tier, ...]:
    """The tiers with as many merged as it takes for at most ``cap`` tokens in all.

    Those that are not merged stay the very same. One that stands alone is shortened.
    """
    standing = tuple(tiers)
    while sum(tier.tokens for tier in standing) > cap and standing:
        if len(standing) == 1:
            (only,) = standing
            shorter = merged(standing, cap, count_tokens)
            return (shorter,) if shorter.tokens < only.tokens else standing
        start, end = _due(standing)
        together = standing[start:end]
        others = sum(tier.tokens for tier in standing) - sum(tier.tokens for tier in together)
        # Half of what they have, so that the next merge is a while off, or what room there is.
        room = max(cap - others, cap // 4, 1)
        half = sum(tier.tokens for tier in together) // 2
        made = merged(together, min(room, half), count_tokens)
        standing = (*standing[:start], made, *standing[end:])
    return standing


def merged(tiers: Sequence[Tier], budget: int, count_tokens: Count) -> Tier:
    """One narrative of neighbours, oldest first, of at most ``budget`` tokens."""
    sections = [form.sections_of(tier.text) for tier in tiers]
    joined: dict[int, list[str]] = {
        number: list(sections[-1].get(number, [])) for number in _OF_THE_MOMENT
    }
    for number in _ENDURING:
        lines = [
            line
            for each in sections
            if not form.is_nothing(each.get(number, []))
            for line in each.get(number, [])
        ]
        joined[number] = list(dict.fromkeys(lines))
    text = form.written(joined)
    while count_tokens(text) > budget and any(joined.values()):
        excess = 1 - budget / count_tokens(text)
        _thin(joined, excess)
        text = form.written(joined)
    return Tier(
        tiers[0].first,
        tiers[-1].last,
        text,
        count_tokens(text),
        max(tier.level for tier in tiers) + 1,
    )


def _due(tiers: Sequence[Tier]) -> tuple[int, int]:
    """Which neighbours are merged next: the oldest half of a run of the lowest level that has one."""
    runs: list[tuple[int, int, int]] = []
    start = 0
    for number in range(1, len(tiers) + 1):
        if number == len(tiers) or tiers[number].level != tiers[start].level:
            if number - start > 1:
                runs.append((tiers[start].level, start, number))
            start = number
    if not runs:
        return len(tiers) - 2, len(tiers)
    _, start, end = min(runs)
    return start, start + max(2, (end - start + 1) // 2)


def _thin(sections: dict[int, list[str]], share: float) -> None:
    """Drop lines: the oldest of what was done first, what holds for the moment last."""
    to_drop = max(1, int(share * sum(map(len, sections.values()))))
    for number in (*reversed(_ENDURING), *reversed(_OF_THE_MOMENT)):
        lines = sections[number]
        dropped = min(to_drop, len(lines))
        # Half of each section at a time, so that none is emptied while the others are whole.
        dropped = min(dropped, (len(lines) + 1) // 2)
        del lines[:dropped]
        to_drop -= dropped
        if to_drop <= 0:
            return
