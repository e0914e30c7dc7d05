"""Sessions of an agent with one fault in them, and what is true of it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvagent.audit.transcript import Request
from tests.audit.logs import SYSTEM, TOOLS, Message, call, reply, request, result, user

INSTRUCTIONS = "\n".join(f"Rule {number}: be careful with step {number}." for number in range(12))


@dataclass
class Sent:
    """One request, as it can be changed."""

    messages: list[Message]
    tools: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Truth:
    """What is to be found."""

    code: str
    turn: int
    message: int | None


def session(seed: int, steps: int) -> list[Sent]:
    """The requests of an agent that calls tools and is asked more and more."""
    chance = random.Random(seed)
    system = {
        **SYSTEM,
        "content": f"Current time: 2026-03-02 09:00:00\nSession id: ab77{seed:06}cd\n{INSTRUCTIONS}",
    }
    messages: list[Message] = [system, user(f"Please do task number {seed}, and do it well.")]
    sent = [Sent(list(messages), TOOLS)]
    for step in range(steps):
        at = f"call_{seed}_{step}"
        kind = chance.choice(("call", "call", "talk", "pair"))
        if kind == "talk":
            messages.append(reply(f"I have done step {step} of task {seed} as you said."))
            messages.append(user(chance.choice(("go on", f"And what of part {step}? Look at it."))))
        else:
            spoken = call("read", at, f'{{"path":"{seed}/{step}.py","deep":true}}')
            spoken["reasoning_content"] = f"I must look at file {step} first."
            messages.append(spoken)
            messages.append(result(f"{step}: " + f"line {step} of {seed}\n" * 5, at))
            if kind == "pair":
                messages.append(reply(f"File {step} has five lines, all of which are alike."))
                messages.append(user(f"Good. Next is number {step}, please."))
        sent.append(Sent(list(messages), TOOLS))
    return sent


def requests(sent: list[Sent]) -> list[Request]:
    return [
        request(each.messages, at, tools=each.tools, options=each.options)
        for at, each in enumerate(sent, 1)
    ]


Inject = Callable[[list[Sent], int, random.Random], Truth | None]
"""Puts one fault into a session from the request at this place on; None: it cannot be there."""


def _from(sent: list[Sent], at: int, change: Callable[[Sent], object]) -> None:
    for each in sent[at:]:
        each.messages = copy.deepcopy(each.messages)
        change(each)


def _in_head(code: str, old: str, new: str) -> Inject:
    def inject(sent: list[Sent], at: int, chance: random.Random) -> Truth:
        def change(each: Sent) -> None:
            text = each.messages[0]["content"]
            assert old in text
            each.messages[0]["content"] = text.replace(old, new)

        _from(sent, at, change)
        return Truth(code, at + 1, 0)

    return inject


def _with_tools(code: str, tools: Callable[[list[Any]], list[Any]]) -> Inject:
    def inject(sent: list[Sent], at: int, chance: random.Random) -> Truth:
        for each in sent[at:]:
            each.tools = tools(copy.deepcopy(each.tools))
        return Truth(code, at + 1, None)

    return inject


def _other_keys(tools: list[Any]) -> list[Any]:
    parameters = tools[1]["function"]["parameters"]
    tools[1]["function"]["parameters"] = dict(reversed(parameters.items()))
    return tools


def _described(tools: list[Any]) -> list[Any]:
    tools[0]["function"]["description"] += " Be quick."
    return tools


def _options(sent: list[Sent], at: int, chance: random.Random) -> Truth:
    for each in sent[at:]:
        each.options = {"chat_template_kwargs": {"enable_thinking": False}}
    return Truth("KVA108", at + 1, None)


def _old(sent: list[Sent], at: int, chance: random.Random, role: str) -> int | None:
    """An old message of a role, behind which more was sent: enough to know the conversation by."""
    old = sent[at - 1].messages[:-2]
    if sum(each["role"] in ("assistant", "tool") for each in sent[at - 1].messages) < 2:
        return None
    places = [number for number, each in enumerate(old) if number and each["role"] == role]
    return chance.choice(places) if places else None


def _in_message(code: str, role: str, edit: Callable[[Message], bool]) -> Inject:
    def inject(sent: list[Sent], at: int, chance: random.Random) -> Truth | None:
        place = _old(sent, at, chance, role)
        if place is None or not edit(copy.deepcopy(sent[at].messages[place])):
            return None
        _from(sent, at, lambda each: edit(each.messages[place]))
        return Truth(code, at + 1, place)

    return inject


def _more_text(message: Message) -> bool:
    message["content"] = "Changed: " + message["content"]
    return True


def _keys_sorted(message: Message) -> bool:
    for each in message.get("tool_calls", ()):
        arguments = json.loads(each["function"]["arguments"])
        each["function"]["arguments"] = json.dumps(arguments, sort_keys=True)
    return "tool_calls" in message


def _without_reasoning(message: Message) -> bool:
    return message.pop("reasoning_content", None) is not None


def _other_ids(message: Message) -> bool:
    for each in message.get("tool_calls", ()):
        each["id"] = "new_" + each["id"]
    return "tool_calls" in message


def _removed(sent: list[Sent], at: int, chance: random.Random) -> Truth | None:
    place = _old(sent, at, chance, "assistant")
    if place is None or place + 2 >= len(sent[at - 1].messages) - 1:
        return None
    _from(sent, at, lambda each: each.messages.__delitem__(slice(place, place + 2)))
    return Truth("KVA204", at + 1, place)


def _sliding(sent: list[Sent], at: int, chance: random.Random) -> Truth | None:
    if at > len(sent) - 3 or len(sent[at - 1].messages) < 8:
        return None
    for number, each in enumerate(sent[at:], 1):
        each.messages = [*each.messages[:2], *each.messages[2 + 2 * number :]]
    if len(sent[-1].messages) < 7:
        return None
    return Truth("KVA205", at + 1, 2)


def _inserted(sent: list[Sent], at: int, chance: random.Random) -> Truth | None:
    place = _old(sent, at, chance, "assistant")
    if place is None:
        return None
    more = user("Here is what was found in the documents: nothing at all.")
    _from(sent, at, lambda each: each.messages.insert(place, more))
    return Truth("KVA206", at + 1, place)


def _moved(sent: list[Sent], at: int, chance: random.Random) -> Truth | None:
    """A reminder stands in the newest message that is no answer, until the next one comes."""
    place = len(sent[at - 1].messages) - 1
    reminder = "\n\n<system-reminder>Remember the list of things to do.</system-reminder>"
    for each, where in ((sent[at - 1], place), (sent[at], len(sent[at].messages) - 1)):
        each.messages = copy.deepcopy(each.messages)
        each.messages[where]["content"] += reminder
    _from(sent, at + 1, lambda each: _more_reminder(each, len(sent[at].messages) - 1, reminder))
    return Truth("KVA207", at + 1, place)


def _more_reminder(each: Sent, at: int, reminder: str) -> None:
    each.messages[at]["content"] += reminder


def _compacted(sent: list[Sent], at: int, chance: random.Random) -> Truth | None:
    """A summary in the place of all but the last steps."""
    old = sent[at - 1].messages
    places = [number for number, each in enumerate(old) if each["role"] == "assistant"]
    if len(places) < 5:
        return None
    gone = places[-3]
    text = " ".join(each["content"] for each in old[1:gone])[:300]
    summary = user(f"Summary of the conversation so far: {text}. Files were read, five lines each.")
    _from(sent, at, lambda each: each.messages.__setitem__(slice(1, gone), [summary]))
    return Truth("KVA210", at + 1, 1)


KINDS: dict[str, Inject] = {
    "clock": _in_head("KVA101", "09:00:00", "09:00:07"),
    "date": _in_head("KVA101", "2026-03-02", "2026-03-03"),
    "id": _in_head("KVA102", "ab77", "ab78"),
    "head edited": _in_head("KVA103", "Rule 7: be careful", "Rule 7: be very careful"),
    "head longer": _in_head("KVA103", INSTRUCTIONS, INSTRUCTIONS + "\nOne more rule."),
    "head shorter": _in_head("KVA103", "Rule 3: be careful with step 3.\n", ""),
    "tools reordered": _with_tools("KVA104", lambda tools: tools[::-1]),
    "keys of a schema": _with_tools("KVA105", _other_keys),
    "tool removed": _with_tools("KVA106", lambda tools: tools[1:]),
    "tool described": _with_tools("KVA106", _described),
    "options": _options,
    "arguments": _in_message("KVA201", "assistant", _keys_sorted),
    "result edited": _in_message("KVA203", "tool", _more_text),
    "question edited": _in_message("KVA203", "user", _more_text),
    "removed": _removed,
    "sliding": _sliding,
    "inserted": _inserted,
    "moved": _moved,
    "reasoning": _in_message("KVA208", "assistant", _without_reasoning),
    "ids": _in_message("KVA209", "assistant", _other_ids),
    "compacted": _compacted,
}
