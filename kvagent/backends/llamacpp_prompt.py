"""What does llama.cpp's server tokenise for a chat request?

The rules of its ``common/chat.cpp``. What it does depends on the template: it renders tiny
conversations to learn what the template can take (`Abilities`), and knows some by their text.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvagent.backends.llamacpp_jinja import WatchedDict, WatchedList, WatchedText, adapt
from kvagent.backends.prompt import Dialect, Edges, Prompt, PromptError, Template, messages_of
from kvagent.prefixcache.seen import common_prefix

CHATML = """{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}"""
"""What stands in for a template that a model lacks."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a template takes: the server's ``chat_template_caps``, as far as they change a prompt.

    ``text`` and ``parts`` are the forms of a message's content, ``system`` the role, ``objects``
    arguments that are parsed. ``thinking`` stands for what the server finds out in another way:
    whether the model thinks, so that ``enable_thinking`` is on unless a request says otherwise.
    """

    text: bool
    parts: bool
    system: bool
    objects: bool
    thinking: bool


def dialect(template_kwargs: Mapping[str, Any] | None = None) -> Dialect:
    """llama.cpp's server started with these ``--chat-template-kwargs``."""
    return Dialect(
        name="llama.cpp",
        prompt=functools.partial(_prompt, template_kwargs or {}),
        mend=mend,
        adapt=adapt,
        default_template=CHATML,
    )


def mend(source: str) -> str:
    """Two templates refuse what the server sends them; it takes the refusals out."""
    if "<|channel|>" in source and "in message.content or" in source:
        return source.replace(
            '{%- if "<|channel|>analysis<|message|>" in message.content or '
            '"<|channel|>final<|message|>" in message.content %}',
            "{%- if false %}",
        )
    if "[TOOL_CALLS]" in source and "if (message['content'] is none or" in source:
        return source.replace(
            "{%- if (message['content'] is none or message['content'] == '' or "
            "message['content']|length == 0) and (message['tool_calls'] is not defined or "
            "message['tool_calls'] is none or message['tool_calls']|length == 0) %}",
            "{%- if false %}",
        )
    return source


def _prompt(
    defaults: Mapping[str, Any], body: Mapping[str, Any], template: Template, edges: Edges
) -> Prompt:
    abilities = abilities_of(template)
    messages = [_message(message) for message in messages_of(body)]
    continued = _continued(body, messages)
    if continued is not None:
        if abilities.thinking:
            raise PromptError(
                "how llama.cpp continues a reply of a model that thinks is not known here: let the "
                "last message be the user's or a tool's"
            )
        messages = messages[:-1]
    if _STEPFUN in template.source:
        messages = [_trimmed(message) for message in messages]
    messages = [_shaped(message, abilities) for message in messages]
    if _HARMONY not in template.source:
        messages = [
            {**message, "role": "system"} if message["role"] == "developer" else message
            for message in messages
        ]
    if not abilities.system:
        messages = _without_system(messages)
    if abilities.objects:
        messages = [_with_objects(message) for message in messages]
    messages = _known_by_text(messages, template.source)
    given = _variables(defaults, body, template, abilities)
    if tools := [_tool(tool) for tool in body.get("tools") or ()]:
        given["tools"] = tools

    def render(*, generation: bool) -> str:
        said = {"add_generation_prompt": True} if generation else {}
        # A template may change the lists: it gets copies.
        text = template.fill({**said, "messages": _copied(messages), **_copied(given)})
        # The tokenizer adds these: never twice.
        return text.removeprefix(edges.first).removesuffix(edges.last)

    generation = body.get("add_generation_prompt") is not False
    if continued is not None:
        with_prompt, without = render(generation=True), render(generation=False)
        text = without + with_prompt[common_prefix(with_prompt, without) :] + continued
    else:
        text = render(generation=generation)
        if _HARMONY in template.source and not generation:
            before, found, after = text.rpartition("<|return|>")
            text = f"{before}<|end|>{after}" if found else text
    return Prompt(text, add_special=True)


# Messages and tools.


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that the server knows, in its order; other ones are dropped."""
    role = message.get("role")
    if not isinstance(role, str):
        raise PromptError("llama.cpp refuses a message without a role")
    if "content" not in message and (role != "assistant" or message.get("tool_calls") is None):
        raise PromptError("llama.cpp refuses a message without content: send an empty one")
    made: dict[str, Any] = {"role": role, "content": _content(message.get("content"))}
    for key in ("reasoning_content", "name", "tool_call_id"):
        value = message.get(key, "")
        if not isinstance(value, str):
            raise PromptError(f"llama.cpp refuses a {key} that is no text: leave it out")
        if value:
            made[key] = value
    if calls := message.get("tool_calls"):
        made["tool_calls"] = [_call(call) for call in calls]
    return made


def _content(content: Any) -> str | list[dict[str, str]]:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise PromptError("llama.cpp takes content that is a text or a list of parts")
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") != "text":
            raise PromptError(
                "only text is known here, no images, audio or other parts: "
                "count such requests with the server itself"
            )
    return [{"type": "text", "text": part["text"]} for part in content] or ""


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, Mapping):
        raise PromptError('llama.cpp takes tool calls of the type "function" only')
    if "name" not in function or "arguments" not in function:
        raise PromptError("llama.cpp refuses a tool call without a name or without arguments")
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    made = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
    return {**made, "id": call["id"]} if call.get("id") else made


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, Mapping):
        raise PromptError('llama.cpp takes tools of the type "function" only')
    description = function.get("description", "")
    if not isinstance(function.get("name"), str) or not isinstance(description, str):
        raise PromptError("llama.cpp refuses a tool whose name or description is no text")
    return {
        "type": "function",
        "function": {
            "name": function["name"],
            "description": description,
            "parameters": _numbers(function.get("parameters", {})),
        },
    }


def _shaped(message: dict[str, Any], abilities: Abilities) -> dict[str, Any]:
    """Content in the form that the template takes."""
    content = message["content"]
    if isinstance(content, list) and abilities.text and not abilities.parts:
        return {**message, "content": _text_of(content)}
    if isinstance(content, str) and abilities.parts and not abilities.text:
        return {**message, "content": [{"type": "text", "text": content}]}
    return message


def _text_of(content: str | Sequence[Mapping[str, str]], between: str = "\n") -> str:
    if isinstance(content, str):
        return content
    text = ""
    for part in content:
        text += (between if text else "") + part["text"]
    return text


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For a template that overlooks it, the system message goes before the next one's text."""
    if not messages or messages[0]["role"] != "system":
        return messages
    system, *others = messages
    if not others:
        return []
    first, *rest = others
    if not isinstance(system["content"], str) or not isinstance(first["content"], str):
        raise PromptError("llama.cpp refuses parts here: send the system message as one text")
    return [{**first, "content": f"{system['content']}\n{first['content']}"}, *rest]


def _with_objects(message: dict[str, Any]) -> dict[str, Any]:
    if "tool_calls" not in message:
        return message
    calls = [
        {
            **call,
            "function": {**call["function"], "arguments": _parsed(call["function"]["arguments"])},
        }
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _parsed(arguments: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        return _numbers(json.loads(arguments, parse_constant=refuse))
    except ValueError as error:
        raise PromptError(
            f"llama.cpp refuses a tool call whose arguments are no JSON ({error}): "
            'send an object, "{}" if there are none'
        ) from error


def _numbers(value: Any) -> Any:
    """Its numbers have 64 bits: a larger one wraps, and a huge one becomes a fraction."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return value - (1 << 64) if 0 <= value < 1 << 64 else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    if isinstance(value, dict):
        return {key: _numbers(each) for key, each in value.items()}
    return [_numbers(each) for each in value] if isinstance(value, list) else value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


# What the request says beside them.


def _variables(
    defaults: Mapping[str, Any], body: Mapping[str, Any], template: Template, abilities: Abilities
) -> dict[str, Any]:
    now = template.now()
    kwargs = {**defaults, **(body.get("chat_template_kwargs") or {})}
    thinking = abilities.thinking
    if isinstance(kwargs.get("enable_thinking"), str):
        raise PromptError("llama.cpp refuses an enable_thinking that is a text: send true or false")
    effort = body.get("reasoning_effort")
    if effort == "none":
        thinking = kwargs["enable_thinking"] = False
    elif isinstance(effort, str):
        kwargs["reasoning_effort"] = effort
    given: dict[str, Any] = {}
    # Templates call the same switch by several names.
    if isinstance(preserve := kwargs.get("preserve_reasoning"), bool):
        given["preserve_thinking"] = preserve
        given |= dict.fromkeys(
            ("clear_thinking", "truncate_history_thinking", "drop_thinking"), not preserve
        )
    if isinstance(effort := kwargs.get("reasoning_effort"), str) and effort:
        given |= {"reasoning_effort": effort, "reasoning_strength": effort}
    return {
        **given,
        "enable_thinking": thinking,
        "datetime": now.strftime("%b %d %Y"),
        "date_string": now.strftime("%d %b %Y"),
        **_numbers(kwargs),
    }


def _continued(body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The text of the last message if the model is to go on with it."""
    asked = body.get("continue_final_message") in (True, "content", "reasoning_content")
    replies = [message["role"] == "assistant" for message in messages[-2:]]
    if asked and body.get("add_generation_prompt") is not False:
        raise PromptError("llama.cpp continues a message only with add_generation_prompt: false")
    if not messages or not (asked or replies[-1]):
        return None
    if not asked and replies == [True, True]:
        raise PromptError("llama.cpp refuses two replies at the end of the messages")
    if messages[-1].get("tool_calls") and replies[-1]:
        raise PromptError("llama.cpp refuses a tool call as the last message: send its result")
    return _text_of(messages[-1]["content"], "\n\n")


# Templates that it knows by their text.

_HARMONY = "<|channel|>"
_STEPFUN = "You have access to the following functions in JSONSchema format"


def _trimmed(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    made = {
        **message,
        "content": content.strip(" \t\n\v\f\r")
        if isinstance(content, str)
        else [{**part, "text": part["text"].strip(" \t\n\v\f\r")} for part in content],
    }
    if "reasoning_content" in made:
        made["reasoning_content"] = made["reasoning_content"].strip(" \t\n\v\f\r")
    return made


def _known_by_text(messages: list[dict[str, Any]], source: str) -> list[dict[str, Any]]:
    if all(mark in source for mark in ("[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]")) and (
        "[CALL_ID]" not in source
    ):
        return [_ministral(message) for message in messages]
    if _HARMONY in source:
        return [_harmony(message) for message in messages]
    for marks, name in _NOT_KNOWN.items():
        if all(mark in source for mark in marks):
            raise PromptError(
                f"what llama.cpp does to messages for {name} is not known here: "
                "count such requests with the server itself"
            )
    return messages


_NOT_KNOWN: Mapping[tuple[str, ...], str] = {
    ("<atem:function_calls>", "<|eom|>"): "Muse Glimmer",
    ("<|tool_list_start|>", "<|tool_list_end|>"): "LFM2",
    ("List of tools: [",): "LFM2.5",
    ("dsml_token", "DSML"): "DeepSeek V3.2 and V4",
    ("'<|tool_call>call:'",): "Gemma 4",
}


def _ministral(message: dict[str, Any]) -> dict[str, Any]:
    """Reasoning is a part of the content."""
    if message["role"] not in ("system", "assistant"):
        return message
    made = dict(message)
    reasoning, content = made.pop("reasoning_content", None), message["content"]
    parts = [] if reasoning is None else [{"type": "thinking", "thinking": reasoning}]
    text = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**made, "content": [*parts, *text]}


def _harmony(message: dict[str, Any]) -> dict[str, Any]:
    """Reasoning has another name, and in a message that calls tools it takes the content's place."""
    if "reasoning_content" not in message:
        return message
    made = {**message, "thinking": message["reasoning_content"]}
    if message.get("tool_calls"):
        del made["content"]
    return made


# What a template can take.


@functools.lru_cache(maxsize=32)
def abilities_of(template: Template) -> Abilities:
    """Found by rendering, as the server does when it loads a template."""
    user = {"role": "user", "content": "User message"}
    plain, listed = WatchedText("content"), WatchedList()
    text = _renders(template, [{"role": "user", "content": plain}])
    _renders(template, [{"role": "user", "content": listed}])
    system = WatchedDict({"role": "system", "content": "System message"})
    _renders(template, [system, user])
    arguments = WatchedDict({"arg": "value"})
    called = _renders(template, _conversation(arguments), [_TOOL])
    return Abilities(
        text=text,
        parts=plain.read or listed.read,
        system="content" in system.read,
        objects=called and "arg" in arguments.read,
        thinking=_thinks(template),
    )


_TOOL = {
    "name": "tool",
    "type": "function",
    "function": {
        "name": "tool1",
        "description": "Tool description",
        "parameters": {
            "type": "object",
            "properties": {"arg": {"type": "string", "description": "Arg description"}},
            "required": ["arg"],
        },
    },
}


def _conversation(arguments: Any) -> list[dict[str, Any]]:
    call = {"id": "call00001", "type": "function"}
    function = {"name": "tool1", "arguments": arguments}
    return [
        {"role": "user", "content": "User message"},
        {"role": "assistant", "content": "", "tool_calls": [{**call, "function": function}]},
        {"role": "tool", "content": "Tool response", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "The tool response was 'tool response'"},
        {"role": "user", "content": "User message"},
    ]


def _rendered(template: Template, messages: Any, tools: Any = (), **said: Any) -> str | None:
    given = {"bos_token": "", "eos_token": "", "add_generation_prompt": True}
    try:
        return template.fill({**given, "messages": messages, "tools": list(tools), **said})
    except ValueError:  # the template's refusal
        return None


def _renders(template: Template, messages: Any, tools: Any = ()) -> bool:
    return _rendered(template, messages, tools) is not None


def _thinks(template: Template) -> bool:
    if _HARMONY in template.source:
        return True
    user = {"role": "user", "content": "User message"}
    reply = {"role": "assistant", "content": "Reply", "reasoning_content": "<REASONING>"}
    if "<REASONING>" in (_rendered(template, [user, reply]) or ""):
        return True
    off, on = (_rendered(template, [user], enable_thinking=each) for each in (False, True))
    return off != on


LLAMACPP = dialect({"preserve_reasoning": True})
"""``llama-server`` as it starts by default; embedded in another program, the server sets none."""
