"""What does the server's chat template cost an agent, and what mends it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from itertools import groupby

import orjson

from kvagent.cli.doctor.findings import Finding
from kvagent.tokens.hazards import Code, Hazard
from kvagent.tokens.profile import TemplateProfile
from kvagent.tokens.questions import DAY_FORMAT

# Characters of the tiny conversations: less is the opening of a reply, and more a whole reply.
_A_FEW = 40
_PLACES = 3

_SEEN: Mapping[Code, str] = {
    "date_in_prompt": "The chat template prints the date: all prompts change at midnight",
    "generation_prompt": "What opens a reply is not how the reply stands in the history later",
    "reasoning_dropped": "The chat template drops old reasoning when the user writes again, and all "
    "that follows it is prefilled anew",
    "system_moved": "The system message moves to a later message as the conversation grows",
    "tools_moved": "The tools move to a later message as the conversation grows",
    "turn_rewritten": "The chat template renders a turn otherwise once another follows",
}

_WORTH_KNOWING: Mapping[Code, str] = {
    "arguments_rewritten": "Arguments of tool calls are rendered in other letters than they came",
    "call_ids_rendered": "Ids of tool calls stand in the prompt: old calls need their old ids",
    "content_trimmed": "White space around a text is dropped, which the model generated",
    "generation_prompt": "A few tokens at the start of each reply are prefilled again",
    "ignored": "The chat template leaves some messages out",
    "results_merged": "Results of parallel calls share one turn: send them together",
    "refused": "The chat template refuses some conversations",
    "turn_rewritten": "A few tokens at the end of a turn are prefilled again",
    "system_moved": "A later system message is moved to the head: put such text into a user message",
}


def template_findings(profile: TemplateProfile) -> Iterator[Finding]:
    """What makes a growing prompt lose much of its prefix."""
    for code, hazards in _by_code(profile):
        costly = [hazard for hazard in hazards if _is_costly(hazard)]
        if costly and code in _SEEN:
            worst = max(costly, key=lambda hazard: hazard.lost)
            yield Finding(_code(code), f"{_SEEN[code]}.{_shown(worst)}", _remedy(worst))


def template_notes(profile: TemplateProfile) -> Iterator[str]:
    """What costs little, or nothing if one knows it."""
    for code, hazards in _by_code(profile):
        mild = [hazard for hazard in hazards if not _is_costly(hazard)]
        if mild and code in _WORTH_KNOWING:
            places = [hazard.where.replace("_", " ") for hazard in mild]
            where = ", ".join(places[:_PLACES])
            more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
            yield f"{_WORTH_KNOWING[code]} ({_code(code)}: {where}{more})."


def _by_code(profile: TemplateProfile) -> Iterator[tuple[Code, list[Hazard]]]:
    ordered = sorted(profile.hazards, key=lambda hazard: hazard.code)
    for code, hazards in groupby(ordered, key=lambda hazard: hazard.code):
        yield code, list(hazards)


def _is_costly(hazard: Hazard) -> bool:
    if hazard.code == "date_in_prompt":
        return True
    if hazard.where in ("late_system", "parallel_calls"):
        return False
    # Agents that send no reasoning back never have it dropped, and few switch thinking off.
    return hazard.lost >= _A_FEW


def _code(code: Code) -> str:
    return "template-" + code.replace("_", "-")


def _shown(hazard: Hazard) -> str:
    if hazard.parting is None:
        return ""
    common, before, after = hazard.parting.around(24)
    if before == after:  # a server's clock cannot be set: its day was found
        return f" It has {common + before!r}."
    return f" After {common!r} stood {before!r}, then {after!r}."


def _remedy(hazard: Hazard) -> str:
    if not hazard.mended_by:
        return "No field of a request mends it: give the server a mended template file."
    best = hazard.mended_by[0]
    if best.by == "chat_template_kwargs":
        kwargs = dict(best.kwargs)
        if hazard.code == "date_in_prompt":
            kwargs = dict.fromkeys(kwargs, date.today().strftime(DAY_FORMAT))  # noqa: DTZ011
        fields = orjson.dumps({"chat_template_kwargs": kwargs}).decode()
        return f"Send {fields} with every request, or set Policy(mend=Mend(switches=True))."
    return {
        "omit_reasoning": "Do not send reasoning back: then prompts keep their prefix.",
        "resend_reasoning": "Send the reasoning of earlier replies back (kvagent does).",
        "system_message": "Always send a system message: the template then prints none of its own.",
    }[best.by]
