"""What did the chat template make of messages that only grew?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvagent.audit.difference import Difference
from kvagent.audit.rule import Contrast, Rule, Sighting
from kvagent.audit.rules import template
from kvagent.audit.rules.places import spot_of
from kvagent.audit.turns import Turn
from kvagent.chat import HEAD_ROLES, text_of

if TYPE_CHECKING:
    from kvagent.tokens.hazards import Code, Hazard, Mend
    from kvagent.tokens.profile import TemplateProfile

# Servers that give the day to a template's variable on their own.
_GIVE_THE_DAY = frozenset({"llama.cpp"})

# Said where tokens are not known, or a server that was asked for them did not tell: no refusals.
_NO_REFUSAL = ("known here", "does not answer", "is not there (status", "wants a key")

# How many characters of a text show that it is that text, and how far in front of a break it may
# begin.
_NEEDLE = 24
_NEAR = 24
_THOUGHT = ("think", "<|channel|>analysis")
_TOOLS = ("[AVAILABLE_TOOLS]",)

_Breaks = Mapping[str, tuple[Rule, "tuple[Code, ...]", str]]
_BREAKS: _Breaks = {
    "reasoning": (
        template.REASONING,
        ("reasoning_dropped", "generation_prompt"),
        "The template leaves out reasoning that stood in the prompt before.",
    ),
    "tools": (
        template.TOOLS_LATE,
        ("tools_moved",),
        "The template has moved the tools to a later message.",
    ),
    "system": (
        template.SYSTEM_MOVED,
        ("system_moved",),
        "The template has moved system text to another place.",
    ),
    "turn": (
        template.REWRITES,
        ("turn_rewritten", "generation_prompt", "results_merged", "content_trimmed"),
        "The template renders messages otherwise than it did before.",
    ),
}
"""By what is seen at the break: the rule, what a template's profile calls it, and what is said."""


class Template:
    """Looks at what the template makes of messages that only grew."""

    def __init__(self) -> None:
        self._date_told = False

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """What the template did to this request."""
        seen = [_broken(turn, found) for found in turn.differences if found.cause == "template"]
        if turn.fault and not any(words in turn.fault for words in _NO_REFUSAL):
            said = f"These requests are refused: {turn.fault}"
            # Behind a bracket stands what is this request's own.
            kind = turn.fault.partition("(")[0]
            seen.append(Sighting(template.REFUSED, kind, spot_of(turn), said, everywhere=True))
        late = _late_system(turn)
        if late:
            seen += _told_late(turn, late)
        profile = turn.profile
        if profile is not None and profile.dates and not self._date_told:
            seen += self._date(turn, profile)
        return seen

    def end(self) -> Iterable[Sighting]:
        """Nothing: each fault was told when it came."""
        return ()

    def _date(self, turn: Turn, profile: TemplateProfile) -> Iterable[Sighting]:
        hazard = profile.hazard("date")
        bare = profile.hazard("date_without_system")
        given = [name.split()[0] for name in profile.dates if name.endswith(" kwarg")]
        fix = example = ""
        if bare is not None and not turn.placed.snapshot.head:
            said = "Without a system message, the template writes one of its own, with the date."
            fix = "Send a system message, however short."
        elif hazard is not None:
            said = "The template prints the server's date into every prompt."
            fix, example = _mended((hazard,))
        elif given and turn.target.kind in _GIVE_THE_DAY and not _pinned(turn, given):
            said = f"The template prints {given[0]}, and the server sets it to today."
            fix = f"Set {given[0]} to the day on which the conversation began."
            example = _switch({given[0]: "31 Jan 2026"})
        else:
            return
        if hazard is not None and _pinned(turn, given):
            return
        self._date_told = True
        yield Sighting(template.DATE, None, spot_of(turn), said, fix, example, everywhere=True)


def _broken(turn: Turn, found: Difference) -> Sighting:
    """What the template did at a break."""
    kind, message = _seen(turn, found), found.index
    rule, codes, said = _BREAKS[kind]
    messages = turn.request.messages
    if kind == "reasoning":
        told = (n for n in range(message, len(messages)) if _reasoning(messages[n]))
        message = next(told, message)
    hazards = () if turn.profile is None else turn.profile.hazards
    bare = not any(map(_reasoning, messages))
    fitting = [
        hazard
        for hazard in hazards
        if hazard.code in codes and (kind != "reasoning" or hazard.where.endswith("bare") == bare)
    ]
    fix, example = _mended(fitting)
    is_shown = found.before != found.after  # else nobody could tell what was rendered
    spot = spot_of(
        turn,
        message,
        tokens=turn.wasted_tokens,
        character=found.character if is_shown else None,
        contrast=Contrast(found.before, found.after, found.offset) if is_shown else None,
    )
    return Sighting(rule, kind, spot, said, fix, example, everywhere=True)


def _seen(turn: Turn, found: Difference) -> str:
    """What stood at a break and stands there no more, or else stands there only now; the nearest."""
    start = max(0, found.offset - _NEAR)
    sides = found.before[start:], found.after[start:]
    messages = turn.request.messages
    texts = {
        "reasoning": map(_reasoning, messages[: found.index + 2]),
        "tools": (*map(_name, turn.request.tools), *_TOOLS),
        "system": (text_of(each) for each in messages if each.get("role") in HEAD_ROLES),
    }
    seen = [(*place, kind) for kind, some in texts.items() for place in _only_in_one(some, sides)]
    near = sides[0][: 2 * _NEAR], sides[1][: 2 * _NEAR]
    seen += [(*place, "reasoning") for place in _only_in_one(_THOUGHT, near)]
    return min(seen, default=(0, 0, "turn"))[2]


def _only_in_one(texts: Iterable[str], sides: tuple[str, str]) -> Iterable[tuple[int, int]]:
    """On which side, and where there, texts begin that the other side does not have."""
    for text in texts:
        needle = text.strip()[:_NEEDLE]
        before, after = (side.find(needle) for side in sides)
        if needle and min(before, after) < 0 <= max(before, after):
            yield (0, before) if before >= 0 else (1, after)


def _reasoning(message: Mapping[str, Any]) -> str:
    for key in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(text := message.get(key), str) and text:
            return text
    return ""


def _name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    return f'"{name}"' if isinstance(name, str) and name else ""


def _late_system(turn: Turn) -> list[int]:
    """The new system messages that stand behind others."""
    snapshot = turn.placed.snapshot
    new = range(max(turn.placed.common, snapshot.head), len(snapshot.messages))
    return [number for number in new if snapshot.messages[number].role in HEAD_ROLES]


def _told_late(turn: Turn, late: Sequence[int]) -> Iterable[Sighting]:
    said = "A system or developer message stands behind other messages."
    if turn.profile is not None:
        hazard = turn.profile.hazard("late_system")
        if hazard is None or hazard.code != "ignored":
            return  # rendered in its place; or it moves or is refused, which is told as such
        said = "A late system message is not rendered at all by this template."
    for number in late:
        text = text_of(turn.request.messages[number])
        spot = spot_of(turn, number, excerpt=text)
        yield Sighting(template.LATE_SYSTEM, None, spot, said, everywhere=True)


def _pinned(turn: Turn, names: Sequence[str]) -> bool:
    given = turn.request.options.get("chat_template_kwargs")
    return isinstance(given, Mapping) and any(name in given for name in names)


def _mended(hazards: Sequence[Hazard]) -> tuple[str, str]:
    """The best that helps against any of them, in words and as code; empty where nothing does."""
    mends = [mend for hazard in hazards for mend in hazard.mended_by]
    switches = [mend for mend in mends if mend.by == "chat_template_kwargs"]
    if switches:
        best = min(switches, key=lambda mend: mend.lost)
        return f"Send {_words(best)} with every request.", _switch(best.kwargs)
    for mend in mends:
        if mend.by in _WORDS:
            return _WORDS[mend.by], ""
    return "", ""


_WORDS = {
    "resend_reasoning": "Send the reasoning of earlier answers with them: this template keeps it.",
    "omit_reasoning": (
        "The template has no switch for it: leave the reasoning out of the history (then each step "
        "prefills its own answer again), or have one such prefill for each user message."
    ),
    "system_message": "Send a system message, however short.",
}


def _words(mend: Mend) -> str:
    pairs = ", ".join(f"{name}={json.dumps(value)}" for name, value in mend.kwargs.items())
    return f"chat_template_kwargs {pairs}"


def _switch(kwargs: Mapping[str, Any]) -> str:
    return f'extra_body={{"chat_template_kwargs": {dict(kwargs)!r}}}'
