"""Is this an answer of ToolBench, and which prompts did it send?

One document; ``train_messages`` has the prompts of the answer's path through the search, each with
the model's message behind it, in OpenAI's older form with functions. They are what was sent, so
that one may differ from the next where it should only have grown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import chat
from kvagent.audit.formats.dialects.functions import modern_tools
from kvagent.audit.formats.fields import items, mapping
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.formats.unroll import HEAD_ROLES, completeness
from kvagent.audit.transcript import Item, Place, Request, Unreadable


def _is_answer(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(
        mapping(value.get("answer_generation")).get("train_messages"), list
    )


def _claims(contents: Contents) -> bool:
    return any(map(_is_answer, contents.values))


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        answer = mapping(value.get("answer_generation"))
        tools = modern_tools(answer.get("function"))
        for at, prompt in enumerate(items(answer.get("train_messages"))):
            path = f"{place.path}.answer_generation.train_messages[{at}]"
            where = Place(place.file, place.line, path)
            try:
                messages = chat.checked(prompt)
            except Broken as error:
                yield Unreadable(where, str(error))
                continue
            replied = bool(messages) and messages[-1].get("role") == "assistant"
            sent = messages[:-1] if replied else messages
            if not sent:
                yield Unreadable(where, "is a prompt without messages")
                continue
            yield Request(
                place=where,
                messages=sent,
                tools=tools,
                replies=messages[-1:] if replied else (),
                complete=completeness(system=sent[0].get("role") in HEAD_ROLES, tools=bool(tools)),
            )


FORMAT = Format("toolbench", "an answer of ToolBench", _claims, _read)
