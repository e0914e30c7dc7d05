"""What can a chat template do to the prefix of a prompt, and what shows that it does?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

GrowthCode = Literal[
    "generation_prompt",
    "reasoning_dropped",
    "refused",
    "system_moved",
    "tools_moved",
    "turn_rewritten",
]
"""What can happen to a conversation to which messages are only added."""

Code = (
    GrowthCode
    | Literal[
        "arguments_rewritten",
        "call_ids_rendered",
        "content_trimmed",
        "date_in_prompt",
        "ignored",
        "results_merged",
    ]
)
"""What a template does; `MEANINGS` says it in words."""

MEANINGS: Mapping[Code, str] = {
    "arguments_rewritten": "the arguments of a tool call are not rendered as they were written",
    "call_ids_rendered": "ids of tool calls stand in the prompt: new ids for old calls break it",
    "content_trimmed": "white space around a text is dropped, though the model has generated it",
    "date_in_prompt": "the prompt changes with the day",
    "generation_prompt": "an answer is asked for in other words than it is rendered in later",
    "ignored": "this is not rendered at all",
    "reasoning_dropped": "reasoning that stood in the prompt is left out later",
    "refused": "the template takes no such conversation",
    "results_merged": "results of parallel calls share a turn, which a late one opens again",
    "system_moved": "system text moves to another place as the conversation grows",
    "tools_moved": "the tools move to a later message as the conversation grows",
    "turn_rewritten": "the last turn is rendered otherwise once another one follows",
}


_HABITS = frozenset({"arguments_rewritten", "call_ids_rendered", "content_trimmed", "ignored"})


@dataclass(frozen=True, slots=True)
class Parting:
    """Two prompts and the character at which they part."""

    before: str
    after: str
    at: int

    @classmethod
    def of(cls, before: str, after: str) -> Parting:
        """Where ``after`` leaves ``before``; at its end where it does not."""
        for at, (one, other) in enumerate(zip(before, after, strict=False)):
            if one != other:
                return cls(before, after, at)
        return cls(before, after, min(len(before), len(after)))

    @property
    def lost(self) -> int:
        """Characters of ``before`` that ``after`` does not begin with."""
        return len(self.before) - self.at

    def around(self, width: int = 40) -> tuple[str, str, str]:
        """What both have before the parting, and what each has behind it."""
        at = self.at
        return (
            self.before[max(0, at - width) : at],
            self.before[at : at + width],
            self.after[at : at + width],
        )


Means = Literal["chat_template_kwargs", "resend_reasoning", "omit_reasoning", "system_message"]


@dataclass(frozen=True, slots=True)
class Mend:
    """A change of the request that helps."""

    by: Means
    lost: int
    """Characters that are lost all the same; 0 is a prefix that holds."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """For ``chat_template_kwargs``. A date's value stands for the conversation's first day."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """One thing that a template does, with the evidence."""

    code: Code
    where: str
    """The growth or the question that showed it; no two hazards of a template have the same."""
    parting: Parting | None = None
    """The two renders; None where there is none because the template refuses."""
    detail: str = ""
    mended_by: tuple[Mend, ...] = ()
    """What was tried and helps, the best first."""

    def __str__(self) -> str:
        lost = f", {self.lost} characters lost" if self.lost else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.where}: {MEANINGS[self.code]}{detail}{lost}"

    @property
    def lost(self) -> int:
        """Characters of the tiny conversation that were lost; 0 where the two renders only show a
        habit, because neither request is what became of the other."""
        return self.parting.lost if self.parting and self.code not in _HABITS else 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a prompt fared when its conversation grew."""

    lost: int | None
    """Characters lost; None where either prompt was refused."""
    kept: int = 0
    """Characters of the prompt before, up to where the later one leaves it."""
    refused: str = ""

    @classmethod
    def of(cls, parting: Parting) -> Outcome:
        """The parting in figures."""
        return cls(parting.lost, parting.at)

    def better_than(self, other: Outcome) -> bool:
        """Whether the prefix held for longer, and not only less text stood behind the parting."""
        if self.lost is None or other.lost is None:
            return other.lost is None and self.lost is not None
        return self.lost < other.lost and (self.lost == 0 or self.kept > other.kept)

    def __str__(self) -> str:
        if self.lost is None:
            return "err"
        return f"DIV(-{self.lost})" if self.lost else "ok"
