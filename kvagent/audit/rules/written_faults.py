"""Which old messages mean what they meant and came back in another form?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from kvagent.audit.difference import first_field, loaded
from kvagent.audit.formats.dialects.functions import MADE
from kvagent.audit.rules import history
from kvagent.audit.rules.fault import Fault, first_contrast, is_seen, is_unseen
from kvagent.audit.rules.roles import called_first
from kvagent.audit.sent import Known
from kvagent.audit.turns import Turn
from kvagent.chat import calls_of
from kvagent.fingerprint import same_render

_REASONING = ("reasoning", "reasoning_content", "reasoning_details")


def written(turn: Turn, at: int, was: Known, now: Known) -> Iterator[Fault]:
    """What of a message is another text to the server; often it is nothing."""
    before, after = loaded(was.raw), loaded(now.raw)
    if was.name != now.name:
        yield from _with_ids(turn, at, before, after)
    if is_unseen(turn, at):
        return
    found = [*_arguments(turn, at, before, after), *_reasoning(at, before, after)]
    yield from found or _form(turn, at, now.role, before, after)


def _arguments(
    turn: Turn, at: int, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Fault]:
    """The first arguments that are another text, and the first that only look otherwise."""
    told: set[bool] = set()
    for number, (one, other) in enumerate(zip(calls_of(before), calls_of(after), strict=False)):
        was, now = _text_of_arguments(one), _text_of_arguments(other)
        only_looks = _rewritten(was) == _rewritten(now)
        if was == now or only_looks in told:
            continue
        said = "The arguments of old calls came back with their keys in another order."
        if only_looks:
            if turn.exact and turn.profile is not None and turn.profile.arguments != "verbatim":
                continue  # the template writes them anew
            said = "The arguments of old calls came back with other blanks or escapes."
            if not turn.exact:
                said += " Most chat templates write them anew, and then it costs nothing."
        told.add(only_looks)
        character, texts = first_contrast(was, now)
        yield Fault(
            history.ARGUMENTS,
            (only_looks, turn.exact),
            said,
            message=at,
            field=f"tool_calls[{number}].function.arguments",
            character=character,
            contrast=texts,
        )


def _text_of_arguments(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    return arguments if isinstance(arguments, str) else ""


def _rewritten(text: str) -> bytes:
    """As a server writes it that has read it: the order of the keys stays."""
    try:
        return orjson.dumps(orjson.loads(text))
    except (ValueError, TypeError):
        return text.encode(errors="replace")


def _reasoning(at: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Fault]:
    """Reasoning that was sent before; under another name it is still there."""
    sent = [(key, before[key]) for key in _REASONING if before.get(key)]
    if not sent or any(after.get(key) for key in _REASONING):
        return
    key, text = sent[0]
    character, texts = first_contrast(text if isinstance(text, str) else str(text), "")
    yield Fault(
        history.REASONING,
        "",
        "The reasoning of old answers was left away.",
        message=at,
        field=key,
        character=character,
        contrast=texts,
    )


def _form(
    turn: Turn, at: int, role: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Fault]:
    """Another form of the whole; servers read many forms as one text."""
    alike = same_render(_bare(before), _bare(after))
    if alike and not is_seen(turn, at):
        return
    field, one, other = first_field(before, after)
    character, texts = first_contrast(one, other)
    yield Fault(
        history.RESERIALISED,
        role,
        f"{called_first(role)} in the history came back in another form.",
        message=at,
        field=field,
        character=character,
        contrast=texts,
        only_alone=alike,
    )


def _bare(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the ids and the arguments of calls, which have rules of their own."""
    bare = {key: value for key, value in message.items() if key != "tool_call_id"}
    if "tool_calls" in bare:
        bare["tool_calls"] = [_bare_call(call) for call in calls_of(message)]
    return bare


def _bare_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    bare = {key: value for key, value in call.items() if key != "id"}
    if isinstance(function := call.get("function"), Mapping):
        bare["function"] = {key: value for key, value in function.items() if key != "arguments"}
    return bare


def _with_ids(
    turn: Turn, at: int, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Fault]:
    """The same message with ids of its own."""
    pairs = [
        (f"tool_calls[{number}].id", one.get("id"), other.get("id"))
        for number, (one, other) in enumerate(zip(calls_of(before), calls_of(after), strict=False))
    ]
    pairs.append(("tool_call_id", before.get("tool_call_id"), after.get("tool_call_id")))
    field, one, other = next((each for each in pairs if each[1] != each[2]), ("", None, None))
    if str(other).startswith(MADE):
        return  # the transcript has none
    said = "The ids of old calls were made anew."
    if is_unseen(turn, at):
        said += " This model's template does not show them, so nothing is lost."
    character, texts = first_contrast(str(one or ""), str(other or ""))
    yield Fault(
        history.IDS,
        is_unseen(turn, at),
        said,
        message=at,
        field=field,
        character=character,
        contrast=texts,
    )
