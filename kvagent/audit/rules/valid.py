"""Is this a request that servers take: has each call its result, and each result its call?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from kvagent.audit.recent import Recent
from kvagent.audit.rule import Rule, Sighting
from kvagent.audit.rules.places import spot_of
from kvagent.audit.turns import Turn
from kvagent.chat import HEAD_ROLES, calls_of

_ROOM = 50_000
_RESULTS = ("tool", "function")
# What may stand between a call and what the model says next.
_BEHIND = (*_RESULTS, *HEAD_ROLES)

ORPHANED_CALL = Rule(
    "KVA601",
    "orphaned-call",
    "warning",
    "",
    "A tool call has no result before the conversation goes on.",
    "OpenAI's and Anthropic's APIs refuse such a request with status 400, and so do the chat "
    "templates of Mistral; vLLM and llama.cpp with other templates take it, and the model reads a "
    "call that nobody answered. It comes about when a step is interrupted, when a history is "
    "trimmed between call and result, or when one of several parallel calls fails.",
    "Answer every call, an interrupted one with a result that says so, and trim only in front of a "
    "call or behind its last result.",
    "for call in reply.tool_calls:\n"
    "    if call.id not in results:\n"
    '        messages.append({"role": "tool", "tool_call_id": call.id, "content": "interrupted"})',
)

ORPHANED_RESULT = Rule(
    "KVA602",
    "orphaned-result",
    "warning",
    "",
    "A tool result answers a call that is not there.",
    "OpenAI's and Anthropic's APIs refuse such a request with status 400; vLLM and llama.cpp "
    "mostly take it, and the model reads an answer without its question. Nearly always the message "
    "with the call was trimmed away, or lost when a history was stored and loaded.",
    "Trim a call and all its results together; kvagent's clear and compact cut nowhere else.",
)

BROKEN_ARGUMENTS = Rule(
    "KVA603",
    "broken-arguments",
    "warning",
    "",
    "The arguments of a tool call are no JSON object.",
    "Mostly the answer was cut off (finish_reason: length) and the call was put into the history as "
    "it was. With most templates llama.cpp refuses the next request. vLLM reads the arguments as "
    "{}: the model sees a call without arguments, and the prompt leaves what was generated there.",
    "Do not execute or keep a call whose arguments do not parse: ask again, or replace the "
    "arguments by an object once, before the message is sent first.",
    "try:\n"
    "    json.loads(call.function.arguments)\n"
    "except ValueError:\n"
    '    call.function.arguments = "{}"  # and say in the result that they were cut off',
)

REFUSED = Rule(
    "KVA604",
    "unpaired-refused",
    "error",
    "",
    "The server refused a request because its calls and results do not pair.",
    "The log has the server's error: a call without its result, or a result without its call, where "
    "this API wants each directly behind the other. The run failed there, and will fail again with "
    "the same history.",
    "Find the call or result that the error names, and answer or remove both together; trim "
    "histories only in front of a call or behind its last result.",
)

RULES = (ORPHANED_CALL, ORPHANED_RESULT, BROKEN_ARGUMENTS, REFUSED)

# As OpenAI and Anthropic say it, in both of OpenAI's APIs.
_UNPAIRED = re.compile(
    r"tool_use\W{1,3}ids were found without|unexpected\W{1,3}tool_use_id|"
    r"tool_call_ids did not have response|must be followed by tool messages|"
    r"must be a response to a prec?eed?ing message with|"
    r"No tool (?:output|call) found for (?:function call|tool output)",
    re.IGNORECASE,
)

_SAID = {
    ORPHANED_CALL.code: "A tool call has no result before the next message.",
    ORPHANED_RESULT.code: "A tool result answers no call of the message before it.",
    BROKEN_ARGUMENTS.code: "The arguments of a tool call are no JSON object.",
}


class Valid:
    """Pairs the calls and results among what is new."""

    def __init__(self) -> None:
        self._told: Recent[tuple[int, str, int, bytes], int] = Recent(_ROOM)

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """What is not paired, or cannot be read."""
        request = turn.request
        seen: list[Sighting] = []
        common = turn.placed.common
        for number, message in enumerate(request.messages[common:], common):
            for position, call in enumerate(calls_of(message)):
                text = _arguments(call)
                if text is not None and not _is_object(text):
                    field = f"tool_calls[{position}].function.arguments"
                    seen += self._tell(BROKEN_ARGUMENTS, turn, number, field, text)
        for rule, number, name in unpaired(request.messages, common):
            field = "tool_call_id" if rule is ORPHANED_RESULT else "tool_calls"
            seen += self._tell(rule, turn, number, field, name)
        if request.error is not None and _UNPAIRED.search(request.error):
            said = "The server refused requests because their calls and results do not pair."
            spot = spot_of(turn, excerpt=request.error)
            seen.append(Sighting(REFUSED, None, spot, said, everywhere=True))
        return seen

    def end(self) -> Iterable[Sighting]:
        """Nothing: each fault was told when it came."""
        return ()

    def _tell(
        self, rule: Rule, turn: Turn, number: int, field: str, excerpt: str
    ) -> Iterable[Sighting]:
        name = turn.placed.snapshot.messages[number].name
        this = turn.conversation, rule.code, number, name + excerpt.encode(errors="replace")
        if self._told.get(this) is None:
            self._told.put(this, number)
            spot = spot_of(turn, number, field=field, excerpt=excerpt)
            yield Sighting(rule, None, spot, _SAID[rule.code], everywhere=True)


def unpaired(messages: Sequence[Mapping[str, Any]], common: int) -> Iterable[tuple[Rule, int, str]]:
    """Calls without results and results without calls, as far as it shows from ``common`` on.

    Yields the rule, the message, and the call's id. Results follow their calls at once, in whatever
    order; a system message may stand between. Calls at the end may still get their results.
    """
    open_calls: dict[str, int] = {}
    nameless = results = 0
    caller = -1
    start = _step(messages, common)
    for number, message in enumerate(messages[start:], start):
        role = message.get("role")
        if role in _RESULTS:
            wanted = message.get("tool_call_id")
            if not isinstance(wanted, str) or not wanted:
                # The older form has names at best: then results are counted.
                results += 1
                if caller < 0 and number >= common:
                    yield ORPHANED_RESULT, number, str(message.get("name") or "")
            elif open_calls.pop(wanted, None) is None and not nameless and number >= common:
                yield ORPHANED_RESULT, number, wanted
            continue
        if role in HEAD_ROLES:
            continue
        if open_calls and not results and number >= common:
            for name, at in open_calls.items():
                yield ORPHANED_CALL, at, name
        open_calls, nameless, results, caller = {}, 0, 0, -1
        if role == "assistant":
            calls = calls_of(message)
            for call in calls:
                own = call.get("id")
                if isinstance(own, str) and own:
                    open_calls[own] = number
            nameless = len(calls) - len(open_calls)
            if message.get("function_call"):
                nameless += 1
            caller = number if open_calls or nameless else -1


def _step(messages: Sequence[Mapping[str, Any]], common: int) -> int:
    """Where the last message stands that calls tools, if only results follow it."""
    at = min(common, len(messages))
    while at and messages[at - 1].get("role") in _BEHIND:
        at -= 1
    return max(at - 1, 0)


def _arguments(call: Mapping[str, Any]) -> str | None:
    function = call.get("function")
    arguments = function.get("arguments") if isinstance(function, dict) else None
    return arguments if isinstance(arguments, str) and arguments else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except ValueError:
        return False
