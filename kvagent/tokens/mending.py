"""What can a request say so that its chat template keeps the prefix?

To be settled once for a conversation: a switch thrown in its midst would itself break the prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from kvagent.tokens.conversations import growths
from kvagent.tokens.hazards import Outcome
from kvagent.tokens.profile import TemplateProfile
from kvagent.tokens.questions import DAY_FORMAT


@dataclass(frozen=True, slots=True)
class Mending:
    """What helps, found by rendering; empty where nothing does or nothing need."""

    chat_template_kwargs: Mapping[str, Any]
    resend_reasoning: bool | None
    """Whether prompts keep their prefix at least as well with the reasoning of earlier turns as
    without. None where the template never renders it."""
    system_message: bool
    """Whether a conversation without a system message should have one: else the template writes
    its own, with the date."""
    left: Mapping[str, int]
    """What is lost all the same: characters of the tiny conversations, by the growth's name."""


def mending(profile: TemplateProfile, day: date | None = None) -> Mending:
    """The means of a profile; ``day`` is what a template that prints the date shall go on printing,
    the day of the conversation's first request. Without it no date is set."""
    kwargs = dict(profile.settled)
    for hazard in profile.hazards:
        if hazard.code == "date_in_prompt" and hazard.mended_by[:1] and day is not None:
            kwargs |= {name: day.strftime(DAY_FORMAT) for name in hazard.mended_by[0].kwargs}
    sent, bare = (_switched(profile, reasoning=reasoning) for reasoning in (True, False))
    resend = None if profile.reasoning == "never" else _gain(sent, bare) >= _gain(bare, sent)
    fared = bare if resend is False else sent
    return Mending(
        chat_template_kwargs=kwargs,
        resend_reasoning=resend,
        system_message=any(
            mend.by == "system_message" for hazard in profile.hazards for mend in hazard.mended_by
        ),
        left={name: outcome.lost for name, outcome in fared.items() if outcome.lost},
    )


def _switched(profile: TemplateProfile, *, reasoning: bool) -> dict[str, Outcome]:
    """How each growth fares with the profile's switches."""
    return {
        growth.name: profile.switched[growth.name]
        for growth in growths(thinking=None)
        if growth.reasoning == reasoning
    }


def _gain(fared: Mapping[str, Outcome], other: Mapping[str, Outcome]) -> tuple[int, int]:
    """What ``fared`` has before ``other``, growth by growth: prompts that are not refused, which
    is worth more than any prefix, and characters that are not lost."""
    better = [
        (one, two)
        for one, two in zip(fared.values(), other.values(), strict=True)
        if one.better_than(two)
    ]
    taken = sum(two.lost is None for _, two in better)
    return taken, sum(two.lost - (one.lost or 0) for one, two in better if two.lost is not None)
