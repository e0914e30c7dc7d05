"""What else does a template do that an agent should know: dates, tools, arguments, ids, roles?"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, TypeAlias

from kvagent.tokens import conversations as c
from kvagent.tokens.conversations import Message, Probe, Refused, body
from kvagent.tokens.hazards import Hazard, Mend, Outcome, Parting
from kvagent.tokens.study import Rendered, Study, outcome_of
from kvagent.tokens.switches import dates

Asking: TypeAlias = Generator[Probe, Rendered, list[Hazard]]

Reasoning = Literal["never", "loop", "always"]

DAY_FORMAT = "%d %b %Y"
"""How a date is given to a template's ``date_string``; llama.cpp does the same."""
_PINNED = c.FIRST_CLOCK.replace(day=2).strftime(DAY_FORMAT)

# What a server's day is looked for in.
_DATE_FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"),
    *("%d %b %Y", "%d %B %Y", "%b %d %Y", "%b %d, %Y", "%B %d, %Y", "%B %d %Y"),
)

_SPELLED = '{"city":"Par\\u00eds","days":3,"rate":3.14159265}'
"""As a model may write it: compact, escaped, with more digits than six."""
_RESPELLED = json.dumps(json.loads(_SPELLED), ensure_ascii=False)
# The first two pairs of it: how quotes are escaped, and what stands between key and value and pairs.
_PAIRS = re.compile(r'(\\?")city\1(\s*:\s*)\1Par[^"]*?s\1(\s*,\s*)\1days\1')


@dataclass(frozen=True, slots=True)
class Arguments:
    """How the arguments of a tool call are rendered."""

    style: str
    """``verbatim``, ``double encoded``, JSON's separators as in "`, `/`: `", ``other`` (XML, ...),
    ``not rendered``, or ``refused``."""
    hazards: tuple[Hazard, ...] = ()


def ask_dates(
    study: Study, today: date | None
) -> Generator[Probe, Rendered, tuple[tuple[str, ...], list[Hazard]]]:
    """Whether the prompt changes with the day: ``strftime_now``, ``date_string kwarg``, ``nosys``.

    Where the clock cannot be set, ``today`` is looked for in the prompt.
    """
    found: list[str] = []
    hazards: list[Hazard] = []
    with_system = [c.system(c.SYSTEM), c.user(c.QUESTION)]
    shown = yield from _day_shown(study, body(with_system, tools=True), today)
    mends = []
    for name in dates(study.undeclared):
        pinned = body(with_system, tools=True, kwargs={name: _PINNED})
        prompt = yield from study.render(pinned)
        if isinstance(prompt, str) and _PINNED in prompt:
            found.append(f"{name} kwarg")
            if not (yield from _day_shown(study, pinned, today)):
                mends.append(Mend("chat_template_kwargs", 0, {name: _PINNED}))
    if shown:
        found.insert(0, "strftime_now")
        hazards.append(Hazard("date_in_prompt", "date", shown, mended_by=tuple(mends)))
    bare = yield from _day_shown(study, body([c.user(c.QUESTION)], tools=True), today)
    if bare:
        found.append("nosys")
        if not shown:
            hazards.append(
                Hazard(
                    "date_in_prompt",
                    "date_without_system",
                    bare,
                    mended_by=(Mend("system_message", 0),),
                )
            )
    return tuple(found), hazards


def _day_shown(
    study: Study, request: Message, today: date | None
) -> Generator[Probe, Rendered, Parting | None]:
    first = yield from study.render(request)
    if isinstance(first, Refused):
        return None
    if today is None:
        second = yield from study.render(request, c.SECOND_CLOCK)
        if isinstance(second, str) and second != first:
            return Parting.of(first, second)
        return None
    at = min((first.find(text) for text in _spellings(today) if text in first), default=-1)
    return Parting(first, first, at) if at >= 0 else None


def _spellings(today: date) -> set[str]:
    """How the day may be written; the server may live where it is another day."""
    days = (today + timedelta(days=step) for step in (-1, 0, 1))
    written = {day.strftime(style) for day in days for style in _DATE_FORMATS}
    return written | {re.sub(r"\b0(?=\d\b)", "", text) for text in written}


def ask_reasoning(study: Study) -> Generator[Probe, Rendered, Reasoning]:
    """Which reasoning is rendered when it is sent again."""
    loop = [c.system(c.SYSTEM), c.user(c.QUESTION), c.call(reasoning=True), c.result()]
    over = [*loop, c.assistant(c.FINAL, reasoning=True), c.user(c.FOLLOW_UP)]
    finished = yield from study.render(body(over, tools=True))
    if isinstance(finished, str) and finished.count(c.REASONING) == 2:
        return "always"
    going_on = yield from study.render(body(loop, tools=True))
    return "loop" if isinstance(going_on, str) and c.REASONING in going_on else "never"


def ask_positions(study: Study) -> Generator[Probe, Rendered, tuple[str, ...]]:
    """The order in which SYS, TOOLS, U1 and U2 stand in the prompt; what is missing is not rendered."""
    messages = [
        c.system(c.SYSTEM),
        c.user(c.QUESTION),
        c.assistant(c.GREETING),
        c.user(c.FOLLOW_UP),
    ]
    prompt = yield from study.render(body(messages, tools=True))
    if isinstance(prompt, Refused):
        return ()
    texts = {"SYS": c.SYSTEM, "TOOLS": c.TOOL_NOTE, "U1": c.QUESTION, "U2": c.FOLLOW_UP}
    return tuple(
        sorted((n for n in texts if texts[n] in prompt), key=lambda n: prompt.find(texts[n]))
    )


def ask_arguments(study: Study, as_given: bool) -> Generator[Probe, Rendered, Arguments]:
    """How a tool call's arguments are rendered, and whether their spelling survives."""
    spelled = yield from study.render(_called(_SPELLED), as_given=as_given)
    if isinstance(spelled, Refused):
        return Arguments("refused")
    style = _style(spelled)
    if style == "not rendered":
        return Arguments(style, (Hazard("ignored", "arguments", Parting.of(spelled, spelled)),))
    respelled = yield from study.render(_called(_RESPELLED), as_given=as_given)
    if style == "verbatim" or isinstance(respelled, Refused):
        return Arguments(style)
    parting = Parting.of(spelled, respelled)
    rounded = "" if "3.14159265" in spelled else "; numbers are rounded"
    return Arguments(
        style, (Hazard("arguments_rewritten", "arguments", parting, f"as {style}{rounded}"),)
    )


def _called(arguments: str) -> Message:
    return body(
        [c.system(c.SYSTEM), c.user(c.QUESTION), c.call(arguments=arguments), c.result()],
        tools=True,
    )


def _style(prompt: str) -> str:
    if _SPELLED in prompt:
        return "verbatim"
    pairs = _PAIRS.search(prompt)
    if pairs:
        quote, colon, comma = pairs.groups()
        return "double encoded" if quote == '\\"' else f"`{comma}`/`{colon}`"
    _, _, called = prompt.rpartition(c.QUESTION)
    return "other" if re.search("Par[^\n]{1,6}s", called) else "not rendered"


def ask_late_system(study: Study) -> Generator[Probe, Rendered, tuple[Outcome, list[Hazard]]]:
    """What a system message does that is not the first: how the prompt fares, and the hazard."""
    head = [c.system(c.SYSTEM), c.user(c.QUESTION)]
    late = [c.assistant(c.GREETING), c.system(c.LATE), c.user(c.FOLLOW_UP)]
    closed = yield from _grown(study, [*head, late[0]], late[1:], prompted=False)
    grown = yield from _grown(study, head, late)
    plain = yield from _grown(study, head, [late[0], late[2]])
    hazards = []
    if isinstance(grown, Refused):
        if not isinstance(plain, Refused):
            hazards.append(Hazard("refused", "late_system", detail=grown.reason))
    elif c.LATE not in grown.after:
        hazards.append(Hazard("ignored", "late_system", grown))
    elif isinstance(plain, Parting) and grown.lost > plain.lost:
        hazards.append(Hazard("system_moved", "late_system", grown))
    return outcome_of(closed), hazards


def _grown(
    study: Study, head: list[Message], added: list[Message], prompted: bool = True
) -> Generator[Probe, Rendered, Parting | Refused]:
    """As `Study.grow`; with tools where the template refuses to do without."""
    refused = Refused("")
    for tools in (False, True):
        before = yield from study.render(body(head, tools=tools, prompted=prompted))
        after = yield from study.render(body([*head, *added], tools=tools))
        if isinstance(before, Refused):
            refused = before
        elif isinstance(after, Refused):
            refused = after
        else:
            return Parting.of(before, after)
    return refused


def ask_results(study: Study) -> Asking:
    """Whether results of parallel calls share a turn, and whether ids of calls are rendered."""
    ids = (c.CALL_ID, c.OTHER_CALL_ID)
    head = [c.system(c.SYSTEM), c.user(c.QUESTION)]
    hazards = []
    first = [*head, c.call(ids=ids), c.result()]
    before = yield from study.render(body(first, tools=True, prompted=False))
    after = yield from study.render(body([*first, c.result(c.FINAL, c.OTHER_CALL_ID)], tools=True))
    if isinstance(before, str) and isinstance(after, str):
        parting = Parting.of(before, after)
        if parting.lost:
            hazards.append(Hazard("results_merged", "parallel_calls", parting))
    one = yield from study.render(body([*head, c.call(), c.result()], tools=True))
    other = yield from study.render(
        body(
            [*head, c.call(ids=(c.OTHER_CALL_ID,)), c.result(call_id=c.OTHER_CALL_ID)],
            tools=True,
        )
    )
    if isinstance(one, str) and isinstance(other, str) and c.CALL_ID in one and one != other:
        hazards.append(Hazard("call_ids_rendered", "call_ids", Parting.of(one, other)))
    return hazards


def ask_white_space(study: Study) -> Asking:
    """Whether white space around texts is dropped."""
    hazards = []
    for role in ("system", "user", "assistant", "tool"):
        padded = yield from study.render(_padded(role, "\n  {} \n"))
        plain = yield from study.render(_padded(role, "{}"))
        if isinstance(padded, Refused) or isinstance(plain, Refused):
            continue
        kept = f"\n  {c.FINAL} \n"
        if c.FINAL in padded and kept not in padded and json.dumps(kept) not in padded:
            hazards.append(
                Hazard("content_trimmed", f"white_space_{role}", Parting.of(plain, padded))
            )
    return hazards


def _padded(role: str, pad: str) -> Message:
    texts = {"system": c.SYSTEM, "user": c.QUESTION, "tool": c.RESULT, "assistant": c.GREETING}
    texts[role] = pad.format(c.FINAL)
    return body(
        [
            c.system(texts["system"]),
            c.user(texts["user"]),
            c.call(),
            c.result(texts["tool"]),
            c.assistant(texts["assistant"]),
            c.user(c.FOLLOW_UP),
        ],
        tools=True,
    )


def ask_roles(study: Study) -> Asking:
    """Whether a message of each kind is taken and rendered, and requests without tools."""
    question = c.user(c.QUESTION)
    asked = {
        "system": ([c.system(c.LATE), question], True),
        "developer": ([{"role": "developer", "content": c.LATE}, question], True),
        "tool": ([question, c.call(), c.result(c.LATE)], True),
        "tools": ([c.user(c.LATE)], True),
        "without_tools": ([c.user(c.LATE)], False),
    }
    hazards = []
    for where, (messages, tools) in asked.items():
        prompt = yield from study.render(body(messages, tools=tools))
        if isinstance(prompt, Refused):
            hazards.append(Hazard("refused", where, detail=prompt.reason))
        elif (c.TOOL_NOTE if where == "tools" else c.LATE) not in prompt:
            hazards.append(Hazard("ignored", where, Parting.of(prompt, prompt)))
    return hazards
