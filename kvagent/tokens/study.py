"""How does a prompt fare when its conversation grows, why, and which switch would help?"""

from __future__ import annotations

import json
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from kvagent.tokens.conversations import (
    FINAL,
    FIRST_CLOCK,
    FOLLOW_UP,
    KINDS,
    NO_THINKING,
    PRESERVE,
    QUESTION,
    REASONING,
    REMARK,
    RESULT,
    SYSTEM,
    TOOL_NOTE,
    Growth,
    Probe,
    Refused,
    body,
    growths,
    system,
    user,
)
from kvagent.tokens.hazards import GrowthCode, Hazard, Means, Mend, Outcome, Parting
from kvagent.tokens.switches import HISTORY, switches

Rendered: TypeAlias = str | Refused

_TEXTS = (SYSTEM, QUESTION, REASONING, RESULT, REMARK, FINAL, FOLLOW_UP, TOOL_NOTE)


@dataclass(frozen=True, slots=True)
class Growths:
    """How all conversations fared; see `TemplateProfile`."""

    hazards: tuple[Hazard, ...]
    outcomes: Mapping[str, Outcome]
    settled: Mapping[str, Any]
    switched: Mapping[str, Outcome]


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
        self, tried: Sequence[Growth], hazards: Sequence[Hazard]
    ) -> Generator[Probe, Rendered, dict[str, Any]]:
        """The ``chat_template_kwargs`` that together lose least over all growths ``tried``."""
        settled: dict[str, Any] = {}
        least = yield from self._losses(tried, settled)
        mends = [mend for hazard in hazards for mend in hazard.mended_by if mend.kwargs]
        candidates: list[Mapping[str, Any]] = []
        for mend in sorted(mends, key=lambda mend: mend.lost):
            if mend.kwargs not in candidates:
                candidates.append(mend.kwargs)
        for kwargs in candidates:
            more = {**settled, **kwargs}
            losses = yield from self._losses(tried, more)
            if losses < least:
                settled, least = more, losses
        return settled

    def _losses(
        self, tried: Sequence[Growth], kwargs: Mapping[str, Any]
    ) -> Generator[Probe, Rendered, tuple[int, int]]:
        refused = lost = 0
        for growth in tried:
            outcome = yield from self.outcome(growth.with_kwargs(kwargs))
            refused += outcome.lost is None
            lost += outcome.lost or 0
        return refused, lost

    def _mends(
        self, growth: Growth, grown: Parting
    ) -> Generator[Probe, Rendered, tuple[Mend, ...]]:
        mends = []
        for group in switches(self.undeclared):
            if len(group) > 1 and (yield from self.grow(growth.with_kwargs(group))) == grown:
                continue
            for name, value in group.items():
                switched = yield from self.grow(growth.with_kwargs({name: value}))
                if (
                    isinstance(switched, Parting)
                    and switched.lost < grown.lost
                    and _holds_as_much(switched.after, grown.after)
                    and (name in HISTORY or (yield from self._starts_alike({name: value})))
                ):
                    mends.append(Mend("chat_template_kwargs", switched.lost, {name: value}))
        twin = growth.twin()
        if twin:
            told = yield from self.outcome(twin)
            if told.lost is not None and told.better_than(Outcome.of(grown)):
                by: Means = "resend_reasoning" if twin.reasoning else "omit_reasoning"
                mends.append(Mend(by, told.lost))
        return tuple(sorted(mends, key=lambda mend: mend.lost))

    def thinking_matters(self, thinking: bool) -> Generator[Probe, Rendered, bool]:
        """Whether switching it on or off changes any prompt; else all would be asked again."""
        names = NO_THINKING.keys()
        if self.undeclared is not None and not any(name in self.undeclared for name in names):
            return False
        for kind in KINDS:
            plain = replace(kind, reasoning=thinking)
            switched = replace(plain, thinking=thinking)
            if (yield from self.grow(plain)) != (yield from self.grow(switched)):
                return True
        return False

    def _starts_alike(self, kwargs: Mapping[str, Any]) -> Generator[Probe, Rendered, bool]:
        """Whether a switch of unknown purpose leaves the first prompt of a session alone."""
        first = [system(SYSTEM), user(QUESTION)]
        plain = yield from self.render(body(first, tools=True))
        switched = yield from self.render(body(first, tools=True, kwargs=kwargs))
        return plain == switched


def ask_growths(study: Study) -> Generator[Probe, Rendered, Growths]:
    """Let every conversation grow, with thinking as it is, on, and off where that differs."""
    hazards: list[Hazard] = []
    outcomes: dict[str, Outcome] = {}
    tried: list[Growth] = []
    for thinking in (None, True, False):
        differs = thinking is None or (yield from study.thinking_matters(thinking))
        for growth in growths(thinking):
            if not differs:
                plain = replace(growth, thinking=None)
                outcomes[growth.name] = outcomes[plain.name]
                continue
            outcomes[growth.name] = yield from study.outcome(growth)
            if outcomes[growth.name].lost is None and not growth.tools:  # some want tools
                growth = replace(growth, tools=True)
                outcomes[growth.name] = yield from study.outcome(growth)
            tried.append(growth)
            hazard = yield from study.hazard(growth)
            if hazard:
                hazards.append(hazard)
    settled = yield from study.settle(tried, hazards)
    switched = dict(outcomes)
    for growth in tried if settled else ():
        switched[growth.name] = yield from study.outcome(growth.with_kwargs(settled))
    (loop,) = (kind for kind in KINDS if kind.kind == "after_loop")
    outcomes["after_loop_preserved"] = yield from study.outcome(loop.with_kwargs(PRESERVE))
    return Growths(tuple(hazards), outcomes, settled, switched)


def outcome_of(grown: Parting | Refused) -> Outcome:
    """What was kept and lost, in figures."""
    return Outcome(None, refused=grown.reason) if isinstance(grown, Refused) else Outcome.of(grown)


def _holds_as_much(switched: str, plain: str) -> bool:
    return all(switched.count(text) >= plain.count(text) for text in _TEXTS)


def _cause(grown: Parting, unprompted: str | None) -> GrowthCode:
    """What happened at the parting, judged by what stands behind it."""
    before, after, at = grown.before, grown.after, grown.at
    if unprompted is not None and before.startswith(unprompted) and at >= len(unprompted):
        return "generation_prompt"
    causes: list[tuple[int, GrowthCode]] = []
    if before.count(REASONING, at) > after.count(REASONING, at):
        causes.append((before.find(REASONING, at), "reasoning_dropped"))
    moves: tuple[tuple[str, GrowthCode], ...] = (
        (TOOL_NOTE, "tools_moved"),
        (SYSTEM, "system_moved"),
    )
    for text, code in moves:
        stood = before.find(text, at)
        if stood >= 0 and after.find(text) != stood:
            causes.append((stood, code))
    return min(causes)[1] if causes else "turn_rewritten"
