"""How does a prompt fare when its conversation grows, why, and which switch would help?"""

from __future__ import annotations

import json
from collections.abc import Collection, Generator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from kvagent.tokens.conversations import (
    FINAL,
    FIRST_CLOCK,
    FOLLOW_UP,
    GREETING,
    QUESTION,
    REASONING,
    RESULT,
    SYSTEM,
    TOOL_NOTE,
    Growth,
    Probe,
    Refused,
    body,
    system,
    user,
)
from kvagent.tokens.hazards import GrowthCode, Hazard, Means, Mend, Outcome, Parting
from kvagent.tokens.switches import HISTORY, switches

Rendered: TypeAlias = str | Refused

_TEXTS = (SYSTEM, QUESTION, REASONING, RESULT, GREETING, FINAL, FOLLOW_UP, TOOL_NOTE)


class Study:
    """Asks for prompts, each one once, and compares them.

    Args:
        undeclared: the template's variables; None if unknown.
    """

    def __init__(self, undeclared: Collection[str] | None = None) -> None:
        self.undeclared = undeclared
        self._prompts: dict[str, Rendered] = {}

    def render(
        self, request: Mapping[str, Any], now: datetime = FIRST_CLOCK, as_given: bool = False
    ) -> Generator[Probe, Rendered, Rendered]:
        """The prompt of a request body."""
        key = json.dumps([request, now.isoformat(), as_given])
        if key not in self._prompts:
            self._prompts[key] = yield Probe(request, now, as_given)
        return self._prompts[key]

    def grow(self, growth: Growth) -> Generator[Probe, Rendered, Parting | Refused]:
        """Where the later prompt leaves the first one."""
        before = yield from self.render(growth.before())
        if isinstance(before, Refused):
            return before
        after = yield from self.render(growth.after())
        return after if isinstance(after, Refused) else Parting.of(before, after)

    def outcome(self, growth: Growth) -> Generator[Probe, Rendered, Outcome]:
        """The same as a number."""
        return outcome_of((yield from self.grow(growth)))

    def hazard(self, growth: Growth) -> Generator[Probe, Rendered, Hazard | None]:
        """What the template does to this growth, and what helps; None if the prefix holds."""
        grown = yield from self.grow(growth)
        if isinstance(grown, Refused):
            return Hazard("refused", growth.name, detail=grown.reason)
        if not grown.lost:
            return None
        unprompted = yield from self.render(growth.unprompted())
        code = _cause(grown, None if isinstance(unprompted, Refused) else unprompted)
        mends = yield from self._mends(growth, grown)
        return Hazard(code, growth.name, grown, mended_by=mends)

    def settle(
        self, growths: Sequence[Growth], hazards: Sequence[Hazard]
    ) -> Generator[Probe, Rendered, dict[str, Any]]:
        """The ``chat_template_kwargs`` that together lose least over all ``growths``."""
        settled: dict[str, Any] = {}
        least = yield from self._losses(growths, settled)
        for mend in sorted(
            (mend for hazard in hazards for mend in hazard.mended_by if mend.kwargs),
            key=lambda mend: mend.lost,
        ):
            if mend.kwargs.keys() <= settled.keys():
                continue
            losses = yield from self._losses(growths, {**settled, **mend.kwargs})
            if losses < least:
                settled, least = {**settled, **mend.kwargs}, losses
        return settled

    def _losses(
        self, growths: Sequence[Growth], kwargs: Mapping[str, Any]
    ) -> Generator[Probe, Rendered, tuple[int, int]]:
        refused = lost = 0
        for growth in growths:
            outcome = yield from self.outcome(growth.with_kwargs(kwargs))
            refused += outcome.lost is None
            lost += outcome.lost or 0
        return refused, lost

    def _mends(
        self, growth: Growth, grown: Parting
    ) -> Generator[Probe, Rendered, tuple[Mend, ...]]:
        mends = []
        for kwargs in switches(self.undeclared):
            switched = yield from self.grow(growth.with_kwargs(kwargs))
            if (
                isinstance(switched, Parting)
                and switched.lost < grown.lost
                and _holds_as_much(switched.after, grown.after)
                and (kwargs.keys() <= HISTORY.keys() or (yield from self._starts_alike(kwargs)))
            ):
                mends.append(Mend("chat_template_kwargs", switched.lost, kwargs))
        other = growth.with_reasoning(not growth.reasoning)
        twin = yield from self.grow(other)
        if other != growth and isinstance(twin, Parting) and twin.lost < grown.lost:
            by: Means = "resend_reasoning" if other.reasoning else "omit_reasoning"
            mends.append(Mend(by, twin.lost))
        return tuple(sorted(mends, key=lambda mend: mend.lost))

    def _starts_alike(self, kwargs: Mapping[str, Any]) -> Generator[Probe, Rendered, bool]:
        """Whether a switch of unknown purpose leaves the first prompt of a session alone."""
        first = [system(SYSTEM), user(QUESTION)]
        plain = yield from self.render(body(first, tools=True))
        switched = yield from self.render(body(first, tools=True, kwargs=kwargs))
        return plain == switched


def outcome_of(grown: Parting | Refused) -> Outcome:
    """How many characters were lost."""
    if isinstance(grown, Refused):
        return Outcome(None, grown.reason)
    return Outcome(grown.lost)


def _holds_as_much(switched: str, plain: str) -> bool:
    return all(switched.count(text) >= plain.count(text) for text in _TEXTS)


def _cause(grown: Parting, unprompted: str | None) -> GrowthCode:
    """What happened at the parting, judged by what stands behind it."""
    before, after, at = grown.before, grown.after, grown.at
    if unprompted is not None and before.startswith(unprompted) and at >= len(unprompted):
        return "generation_prompt"
    if before.count(REASONING, at) > after.count(REASONING, at):
        return "reasoning_dropped"
    if 0 <= before.find(TOOL_NOTE, at) < after.find(TOOL_NOTE, at):
        return "tools_moved"
    # A system message that is rendered before the last user message only leaves no trace.
    if before.find(SYSTEM, at) >= 0 and after.find(SYSTEM, at) != before.find(SYSTEM, at):
        return "system_moved"
    return "turn_rewritten"
