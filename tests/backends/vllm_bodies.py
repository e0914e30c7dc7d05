"""Which requests show what vLLM does to messages, tools and variables?"""

from __future__ import annotations

from typing import Any

from tests.tokens.chats import CONVERSATIONS as EVERY_KIND
from tests.tokens.chats import TOOLS, Body, Message, call, reply, result, texts, user

MIRROR = """
{%- for m in messages %}[{{ m|tojson }}]{% endfor -%}
<T>{{ tools|tojson }}<V>{{ [documents, enable_thinking|default('-'), thinking|default('-'),
reasoning_effort|default('-'), add_generation_prompt, foo|default('-'),
continue_final_message|default('-'), tool_choice|default('-')]|tojson -}}
"""
"""Prints all that it is given; takes a text as content."""

MIRROR_OF_PARTS = (
    MIRROR + "{% for m in messages %}{% for p in m['content'] %}{% endfor %}{% endfor %}"
)

DEVELOPER = MIRROR + "{# knows a 'developer' #}"

TEMPLATES = {"texts": MIRROR, "parts": MIRROR_OF_PARTS, "developer": DEVELOPER}

U = user("u")

HEADER = "x-anthropic-billing-header: cch=1;"


def system(content: Any) -> Message:
    return {"role": "system", "content": content}


def called(*arguments: Any, **more: Any) -> Message:
    return reply("", tool_calls=[call("f", each, f"c{at}") for at, each in enumerate(arguments)],
                 **more)  # fmt: skip


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "g", **fields}}


SAID: tuple[Body, ...] = (
    {"tools": TOOLS},
    {"tools": TOOLS, "tool_choice": "none"},
    {"tools": None},
    {"tools": []},
    {"tools": [function(strict=True)]},
    {"tools": [function(strict=None, description=None, parameters=None)]},
    {"tools": [function(parameters={"z": 1.0, "a": [1e-9, None]}, extra=1)]},
    {"tools": [{"function": {"parameters": {}, "name": "g"}, "x": 1}]},
    {"tools": [{"type": "function", "function": {"description": "no name"}}]},
    {"tools": [function(description=1)]},
    {"reasoning_effort": "low"},
    {"reasoning_effort": "none"},
    {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
    {"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}},
    {"chat_template_kwargs": {"enable_thinking": False, "thinking": True, "foo": {"b": 1, "a": 2}}},
    {"chat_template_kwargs": {"foo": None}},
    {"chat_template_kwargs": {"foo": "auto"}},
    {"chat_template_kwargs": {"tool_choice": "x", "unknown": 1}},
    {"chat_template_kwargs": {"add_generation_prompt": False}},
    {"chat_template_kwargs": {"chat_template": "x"}},
    {"chat_template": "x"},
    {"add_generation_prompt": False},
    {"documents": [{"title": "t", "text": "x"}]},
    {"continue_final_message": True},
    {"continue_final_message": True, "add_generation_prompt": False},
)
"""Beside the messages."""

CONVERSATIONS: tuple[tuple[Message, ...], ...] = (
    (),
    ({"content": "no role"},),
    ({"role": "user"},),
    (user(None),),
    (user([]),),
    (user(["bare", "texts"]),),
    (user(["bare", *texts("a")]),),
    (user([{"type": "input_text", "text": "a"}, *texts("b")]),),
    (user(["bare"], tool_call_id="c"), {"role": "tool", "content": ["bare"]}, U),
    (U, result(["bare"], "c"), U),
    (user([{"type": "text", "text": None}]),),
    (user([{"type": "text", "text": None}, *texts("a")]),),
    (user(texts("a", "", "b")),),
    (user([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]),),
    (user([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}]),),
    (user([{"type": "refusal", "refusal": "no"}, {"type": "thinking", "thinking": "hm"}]),),
    (user("x", name="bob"), reply("y", name="al"), U),
    (U, reply(None), U),
    (U, {"role": "assistant"}, U),
    (U, reply("a", refusal=None, annotations=[], audio=None), U),
    (U, reply("a", tool_calls=[]), U),
    (U, reply("a", tool_calls=None), U),
    (U, {"role": "assistant", "tool_calls": [call("f", "{}")]}, result("r"), U),
    (U, called('{"a":1,"b":1.0e3,"c":"\\u00e9\\ud83d\\ude00"}'), result("r", "c0"), U),
    (U, called('{"a":1,"a":2}', '{ "z" : [ ] }'), result("r", "c0"), result("s", "c1"), U),
    (U, called("{bad", "[1]", "", "5", "null"), result("r", "c0"), U),
    (U, called({"a": 1}), result("r", "c0"), U),
    (U, called(None), result("r", "c0"), U),
    (U, reply("", tool_calls=[{"type": "function", "function": {"name": "f"}}]), U),
    (U, reply("", tool_calls=[{"type": "function", "id": "c",
                               "function": {"arguments": "{}", "name": "f", "extra": 1}}]), U),
    (U, result("r", "c", name="f"), U),
    (U, result(texts("p1", "", "p2"), "c"), U),
    (U, reply("a", reasoning="one"), U),
    (U, reply("a", reasoning_content="two"), U),
    (U, reply("a", reasoning="one", reasoning_content="two"), U),
    (U, reply("a", reasoning=None, reasoning_content="two"), U),
    (U, reply("a", reasoning=None), U),
    (system("s1"), U, system("s2"), U),
    ({"role": "developer", "content": "d"}, U),
    (system("s"), {"role": "developer", "content": "d"}, U),
    (system("s"), U, {"role": "developer", "content": "late"}, U),
    (U, {"role": "developer", "content": texts("d1", "d2"), "tools": TOOLS[:1]}, U),
    (U, {"role": "developer", "content": "d", "tools": [
        {"x": 1, "type": "function",
         "function": {"strict": True, "parameters": {"z": 1, "a": 2}, "y": 1, "name": "g"}}]}, U),
    (system(f"{HEADER}\nYou are"), U),
    (system(HEADER), U),
    (system([{"type": "text", "text": HEADER}, {"type": "text", "text": "You are"}]), U),
    (user(f"{HEADER}\nkept"),),
    ({"role": "strange", "content": "x"}, U),
    (U, reply("half ")),
)  # fmt: skip

OWN: tuple[Body, ...] = (
    *({"messages": [U], **said} for said in SAID),
    *({"messages": [*messages]} for messages in CONVERSATIONS),
    {
        "messages": [U, reply("half ")],
        "continue_final_message": True,
        "add_generation_prompt": False,
    },
    {
        "messages": [U, reply(texts("ha", "lf\n"))],
        "continue_final_message": True,
        "add_generation_prompt": False,
    },
)

ALL: tuple[Body, ...] = (
    *OWN,
    *({"messages": messages} for messages in EVERY_KIND.values()),
)
