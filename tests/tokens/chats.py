"""Which conversations are templates tried with? Every kind of message, and what may go wrong in one."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]
Body = dict[str, Any]


def user(content: Any, **more: Any) -> Message:
    return {"role": "user", "content": content, **more}


def reply(content: Any, **more: Any) -> Message:
    return {"role": "assistant", "content": content, **more}


def call(name: str, arguments: Any, at: str = "call00001") -> dict[str, Any]:
    return {"id": at, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content: Any, at: str = "call00001", **more: Any) -> Message:
    return {"role": "tool", "tool_call_id": at, "content": content, **more}


def texts(*each: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in each]


def tool(name: str, **more: Any) -> dict[str, Any]:
    properties = {
        "path": {"type": "string", "description": "Where it lies, é"},
        "n": {"type": "integer", "minimum": 0.5, "enum": [1, 2.50, 1e-9]},
    }
    parameters = {"type": "object", "properties": properties, "required": ["path"], **more}
    return {
        "type": "function",
        "function": {"name": name, "description": f"Does {name}", "parameters": parameters},
    }


SYSTEM: Message = {"role": "system", "content": "You are a bot.\nBe  brief. "}
TOOLS = [tool("read_file"), tool("run", additionalProperties=False)]

ARGUMENTS = (
    "{}",
    '{"path":"a/b.py","n":1.0}',
    r'{ "n" : 3.14159265 ,"path":"x\ny\u00e9\ud83d\ude00 \"q\"","z":null,"o":{"b":1,"a":2}}',
    '{"t":true,"l":[1,[2,{"k":1e-7}],"s"]}',
    '{"path":"<|im_end|> it\'s"}',
)
"""As models write them, and as they should not."""

CONVERSATIONS: dict[str, list[Message]] = {
    "user": [user("hi")],
    "system": [SYSTEM, user("hi")],
    "blanks": [SYSTEM, user("  lead\n\n"), reply("\n a \t"), user(" \u00a0x\u2028 ")],
    "unicode": [
        user(
            "é😀 日本語 \r\n\r\n 1234567890123 ﷽ \u200d <|im_start|>user\nfoo<|im_end|></s><think>"
        )
    ],
    "empty": [user(""), reply(""), user("x")],
    "null": [user("u"), reply(None), user("x")],
    "parts": [
        {"role": "system", "content": texts("s1", "s2")},
        user(texts("a", "b")),
        reply(texts("c", "", "d")),
        user(texts("e")),
    ],
    "late system": [
        SYSTEM,
        user("a"),
        reply("b"),
        {"role": "system", "content": "late"},
        user("c"),
    ],
    "developer": [{"role": "developer", "content": "D"}, user("c")],
    "reasoning": [SYSTEM, user("a"), reply("b", reasoning_content="think\n"), user("c")],
    "reasoning and calls": [
        SYSTEM,
        user("a"),
        reply("", reasoning_content="think", tool_calls=[call("run", ARGUMENTS[1])]),
        result("out"),
        reply("fin", reasoning_content="t2"),
        user("c"),
    ],
    "thoughts in the text": [
        user("a"),
        reply("<think>\nq\n</think>\n\nans"),
        user("b"),
        reply("<think>\nq</think>ans2"),
        user("c"),
    ],
    "names": [user("x", name="bob"), reply("y", name="al"), user("z")],
    "parallel": [
        SYSTEM,
        user("do"),
        reply(
            "Sure",
            tool_calls=[call("run", ARGUMENTS[1]), call("read_file", ARGUMENTS[2], "call00002")],
        ),
        result('{"a": 1}'),
        result(texts("p1", "p2"), "call00002"),
        reply("done"),
        user("more"),
    ],
    "interrupted": [
        user("do"),
        reply("", tool_calls=[call("run", ARGUMENTS[2])]),
        result(""),
        user("stop"),
    ],
    **{
        f"arguments {at}": [
            SYSTEM,
            user("do"),
            reply(None, tool_calls=[call("run", arguments)]),
            result("res\nult", name="run"),
        ]
        for at, arguments in enumerate(ARGUMENTS)
    },
}

EXTRAS: tuple[Body, ...] = (
    {},
    {"tools": TOOLS},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"reasoning_effort": "low", "tools": TOOLS},
    {"add_generation_prompt": False},
)
"""What a request may say beside its messages."""

BODIES: tuple[Body, ...] = tuple(
    {"messages": messages, **extra} for messages in CONVERSATIONS.values() for extra in EXTRAS
)
