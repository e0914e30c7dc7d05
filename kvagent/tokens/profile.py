"""What does a chat template do to the prefix of a prompt that only grows?

Found by rendering tiny conversations, never by a model's name. Who renders does not matter: the
generator asks for prompts, and a template file, llama.cpp or vLLM can answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from kvagent.tokens.conversations import (
    Message,
    Probe,
    Refused,
)
from kvagent.tokens.hazards import Code, Hazard, Outcome
from kvagent.tokens.questions import (
    Reasoning,
    ask_arguments,
    ask_dates,
    ask_late_system,
    ask_positions,
    ask_reasoning,
    ask_results,
    ask_roles,
    ask_white_space,
)
from kvagent.tokens.study import Rendered, Study, ask_growths
from kvagent.tokens.template import ChatTemplate, TemplateError

VERSION = 1
"""Changes with the conversations: a profile of another version says nothing of this one's."""


@dataclass(frozen=True, slots=True)
class TemplateProfile:
    """What a template does, found by rendering; JSON and back, to be kept under ``template``."""

    template: str
    """The hash of the template, or another name under which the profile is kept."""
    hazards: tuple[Hazard, ...]
    outcomes: Mapping[str, Outcome]
    """How the prompt fared in each growth, by its name."""
    switched: Mapping[str, Outcome]
    """The same with ``settled``."""
    settled: Mapping[str, Any]
    """The ``chat_template_kwargs`` that lose least; empty where none helps."""
    reasoning: Reasoning
    """Which reasoning of earlier turns is rendered when it is sent: ``never`` any, that of the
    ``loop`` of tool calls that is still going on, or ``always``."""
    dates: tuple[str, ...]
    """What makes the prompt change with the day: ``strftime_now``, ``date_string kwarg``, ``nosys``
    (only a conversation without a system message)."""
    positions: tuple[str, ...]
    """The order of SYS, TOOLS, U1 and U2; what is not rendered is missing."""
    arguments: str
    """How a call's arguments are rendered: see `Arguments.style`."""
    arguments_as_text: str | None
    """The same where the template gets their text unread; None where that was not tried."""
    version: int = VERSION

    def worst(self) -> dict[Code, Hazard]:
        """The hazard of each kind that loses most."""
        found: dict[Code, Hazard] = {}
        for hazard in sorted(self.hazards, key=lambda hazard: hazard.lost):
            found[hazard.code] = hazard
        return found

    def hazard(self, where: str) -> Hazard | None:
        """What was found there."""
        return next((hazard for hazard in self.hazards if hazard.where == where), None)

    def json(self) -> bytes:
        """To be kept."""
        return _adapter().dump_json(self)

    @classmethod
    def parse(cls, data: bytes | str) -> TemplateProfile:
        """What `json` wrote; ``ValueError`` if it is damaged or of another version."""
        profile = _adapter().validate_json(data)
        if profile.version != VERSION:
            raise ValueError(f"a profile of version {profile.version}, this is {VERSION}")
        return profile

    def row(self) -> dict[str, str]:
        """One line of a table of templates: ``ok``, ``DIV(-n)`` (n characters lost) or ``err``."""
        columns = {
            "think turn+user": "turn",
            "no-think turn+user": "turn_no_thinking",
            "2nd tool step": "tool_step",
            "tool→user steer": "steer",
            "new user after tool loop, reasoning sent": "after_loop",
            "… reasoning NOT sent": "after_loop_bare",
            "… + preserve flags": "after_loop_preserved",
        }
        tools = ">".join(self.positions) if "TOOLS" in self.positions else "tools not rendered"
        as_text = self.arguments_as_text or ""
        return {
            "date dep": ",".join(self.dates) or "none",
            "tools position": tools,
            **{column: str(self.outcomes[name]) for column, name in columns.items()},
            "args render": _ARGUMENTS.get(self.arguments, self.arguments),
            "args if str": _ARGUMENTS_AS_TEXT.get(as_text, as_text),
            "mid system msg": str(self.outcomes["late_system"]),
        }


_ARGUMENTS = {"double encoded": "DOUBLE-ENC", "other": "XML/py-like", "refused": "err"}
_ARGUMENTS_AS_TEXT = {**_ARGUMENTS, "not rendered": "n/a"}


@cache
def _adapter() -> TypeAdapter[TemplateProfile]:
    return TypeAdapter(TemplateProfile)


def profile_template(
    template: str, undeclared: Collection[str] | None = None, today: date | None = None
) -> Generator[Probe, Rendered, TemplateProfile]:
    """Asks for some dozens of short prompts and returns the profile; does no I/O of its own.

    Args:
        template: the name under which the profile is kept: the template's hash, where known.
        undeclared: the variables that the template reads, where known: other switches are not
            tried then.
        today: the server's day, where a server renders: its clock cannot be set, and it reads
            ``arguments`` itself. None where the driver obeys ``now`` and ``as_given``.
    """
    study = Study(undeclared)
    grown = yield from ask_growths(study)
    outcomes = dict(grown.outcomes)
    outcomes["late_system"], late = yield from ask_late_system(study)
    dates, dated = yield from ask_dates(study, today)
    reasoning = yield from ask_reasoning(study)
    positions = yield from ask_positions(study)
    arguments = yield from ask_arguments(study, as_given=False)
    as_text = None
    if today is None:
        as_text = yield from ask_arguments(study, as_given=True)
    hazards = [*grown.hazards, *late, *dated, *arguments.hazards]
    hazards += yield from ask_results(study)
    hazards += yield from ask_white_space(study)
    hazards += yield from ask_roles(study)
    return TemplateProfile(
        template=template,
        hazards=tuple(hazards),
        outcomes=outcomes,
        switched=grown.switched,
        settled=grown.settled,
        reasoning=reasoning,
        dates=dates,
        positions=positions,
        arguments=arguments.style,
        arguments_as_text=as_text.style if as_text else None,
    )


def profile_of(template: ChatTemplate) -> TemplateProfile:
    """Profile a template that is at hand."""
    # Both servers make a system message of it where the template does not know the role.
    developer = "developer" if "developer" in template.source else "system"

    def render(probe: Probe) -> Rendered:
        messages = [
            _read(message, developer, as_given=probe.as_given) for message in probe.body["messages"]
        ]
        try:
            return template.render(
                messages,
                probe.body.get("tools"),
                add_generation_prompt=probe.body["add_generation_prompt"],
                variables={
                    **(probe.body.get("chat_template_kwargs") or {}),
                    "strftime_now": probe.now.strftime,
                },
            )
        except TemplateError as error:
            return Refused(str(error))

    return answered(profile_template(template.hash, template.undeclared), render)


def answered(
    profiling: Generator[Probe, Rendered, TemplateProfile],
    render: Callable[[Probe], Rendered],
) -> TemplateProfile:
    """Let ``render`` answer everything that is asked."""
    try:
        probe = next(profiling)
        while True:
            probe = profiling.send(render(probe))
    except StopIteration as stop:
        profile: TemplateProfile = stop.value
        return profile


def _read(message: Message, developer: str, *, as_given: bool) -> Message:
    """A message as the servers hand it to a template: arguments read, reasoning under each name."""
    read = dict(message)
    if message["role"] == "developer":
        read["role"] = developer
    if "reasoning" in message:
        read["thinking"] = message["reasoning"]
    if "tool_calls" in message and not as_given:
        read["tool_calls"] = [
            {
                **call,
                "function": {
                    **call["function"],
                    "arguments": json.loads(call["function"]["arguments"]),
                },
            }
            for call in message["tool_calls"]
        ]
    return read
