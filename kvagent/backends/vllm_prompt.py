"""What does vLLM tokenise for a chat request?

The rules of vLLM 0.32: its request model, ``renderers/chat_utils.py`` and ``renderers/hf.py``, and
of the template code of transformers beneath them.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kvagent.backends.prompt import Dialect, Edges, Prompt, PromptError, Template, messages_of
from kvagent.backends.vllm_content import takes_parts

_OWN_RENDERERS = frozenset(
    {"deepseek_v32", "deepseek_v4", "deepseek_v41", "gpt_oss", "inkling", "kimi_k3"}
)

_TEXT_PARTS = ("text", "input_text", "output_text", "refusal", "thinking")

# Keys that some kind of part has; a template sees those that none has, such as cache_control.
_PART_KEYS = frozenset(
    {
        *("audio_embeds", "audio_url", "closed", "data", "file", "image_embeds", "image_pil"),
        *("image_url", "input_audio", "name", "prompt_cache_breakpoint", "refusal", "text"),
        *("thinking", "type", "uuid", "video_embeds", "video_url"),
    }
)

# Arguments of apply_chat_template: they never reach the template as variables of their own.
_ARGUMENTS = frozenset(
    {
        *("max_length", "padding", "return_assistant_tokens_mask", "return_dict"),
        *("return_tensors", "self", "tokenizer_kwargs", "truncation"),
    }
)

_GIVEN: Mapping[str, Any] = {"tools": None, "documents": None, "add_generation_prompt": False}
"""What every template is given."""

_BILLING_HEADER = "x-anthropic-billing-header"

_TAG = "CONTINUE_FINAL_MESSAGE_TAG "

_Message = dict[str, Any]


def dialect(
    *,
    template_kwargs: Mapping[str, Any] | None = None,
    content_format: str = "auto",
    exclude_tools_when_tool_choice_none: bool = False,
) -> Dialect:
    """vLLM, started with these options.

    Args:
        template_kwargs: ``--default-chat-template-kwargs``.
        content_format: ``--chat-template-content-format``: "auto", "string" or "openai".
        exclude_tools_when_tool_choice_none: the option of this name.
    """

    def prompt(body: Mapping[str, Any], template: Template, _: Edges) -> Prompt:
        excluded = exclude_tools_when_tool_choice_none and body.get("tool_choice") == "none"
        parts = takes_parts(template) if content_format == "auto" else content_format == "openai"
        messages = [_message(message, parts=parts) for message in messages_of(body)]
        return Prompt(
            _rendered(
                template,
                _consolidated(messages, template),
                {
                    "tools": None if excluded else tools_of(body),
                    **_merged(template_kwargs or {}, said_by(body)),
                },
            ),
            add_special=bool(body.get("add_special_tokens", False)),
        )

    return Dialect(name="vllm", prompt=prompt, own_renderers=_OWN_RENDERERS)


# Messages.


def _message(message: Mapping[str, Any], *, parts: bool) -> _Message:
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise PromptError("vLLM refuses a message without a role")
    if content is None and "content" in message and role not in ("assistant", "function"):
        raise PromptError(f"vLLM refuses a {role} message whose content is null: send an empty one")
    texts = _texts(message, role, content)
    made: _Message = {"role": role, "content": texts if parts else _joined(texts)}
    if role == "assistant":
        if message.get("tool_calls") is not None:
            made |= _calls(message["tool_calls"])
        # The older name is renamed, and templates get both.
        reasoning = message.get("reasoning")
        if reasoning is None:
            reasoning = message.get("reasoning_content")
        if reasoning is not None:
            made |= {"reasoning": reasoning, "reasoning_content": reasoning}
    elif role == "tool":
        if "tool_call_id" in message:
            made["tool_call_id"] = message["tool_call_id"]
        # Templates want a tool's result as a text.
        if parts:
            made["content"] = "\n".join(text["text"] for text in texts)
    for key in ("name", "task"):
        if isinstance(message.get(key), str):
            made[key] = message[key]
    if role == "developer":
        tools = message.get("tools")
        made["tools"] = None if tools is None else [_own_tool(tool) for tool in tools]
    return made


def _texts(message: Mapping[str, Any], role: str, content: Any) -> list[dict[str, Any]]:
    """A message's content as parts, all of them texts."""
    if isinstance(content, str):
        if not content.startswith(_BILLING_HEADER):
            return [{"type": "text", "text": content}]
        content = [{"type": "text", "text": content}]
    if content is not None and not isinstance(content, list | tuple):
        raise PromptError("vLLM takes content that is a text or a list of parts")
    if content and all(map(_is_foreign, content)) and _is_known(message):
        raise PromptError(f"vLLM refuses these parts of a {role} message: send a text")
    if role == "system":
        content = _without_billing_header(content or [])
    return [text for part in content or [] if (text := _part(part)) is not None]


def _own_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool in a message, in the order of the SDK's types; one of a request is rebuilt."""
    function = _first(tool["function"], "name", "description", "parameters", "strict")
    return _first({**tool, "function": function}, "function", "type")


def _is_known(message: Mapping[str, Any]) -> bool:
    """Whether the message has the type of its role: one with other keys is less looked at."""
    if message["role"] == "tool":
        return "tool_call_id" in message
    roles = ("assistant", "developer", "system", "user")
    return message["role"] in roles and "tool_call_id" not in message


def _is_foreign(part: Any) -> bool:
    """Whether the part is of no kind that chat requests have."""
    if not isinstance(part, Mapping):
        return True
    kind = part.get("type")
    return kind in ("input_text", "output_text") or (
        kind == "text" and not isinstance(part.get("text"), str)
    )


def _part(part: Any) -> dict[str, Any] | None:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind not in _TEXT_PARTS or part.get("uuid") is not None:
        raise PromptError(
            "only text is known here, no images, audio or other parts: "
            "count such requests with the server itself"
        )
    text = part.get(kind if kind in ("refusal", "thinking") else "text")
    if text is None and kind in ("text", "refusal"):
        return None
    own = {key: value for key, value in part.items() if key not in _PART_KEYS}
    return {"type": "text", "text": text, **own}


def _joined(texts: Sequence[Mapping[str, Any]]) -> str:
    if len(texts) == 1:
        return texts[0]["text"] or ""
    return "\n".join(text["text"] for text in texts if text["text"])


def _without_billing_header(content: Sequence[Any]) -> list[Any]:
    """Without the line in which Claude Code says, for each request, what it is billed as."""
    kept: list[Any] = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else part
        if not (isinstance(text, str) and text.startswith(_BILLING_HEADER)):
            kept.append(part)
        elif rest := text.partition("\n")[2]:
            kept.append({**part, "text": rest} if isinstance(part, Mapping) else rest)
    return kept


def _calls(calls: Sequence[Mapping[str, Any]]) -> _Message:
    """``tool_calls`` with the keys in its order and parsed arguments; none at all if there are none."""
    return {"tool_calls": [_call(call) for call in calls]} if calls else {}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, (dict, Mapping)):
        raise PromptError('vLLM takes tool calls of the type "function" only')
    if not isinstance(call.get("id"), str):
        raise PromptError("vLLM refuses a tool call without an id")
    if not all(isinstance(function.get(key), str) for key in ("name", "arguments")):
        raise PromptError("vLLM refuses a tool call whose name or arguments are no text")
    ordered = _first(function, "arguments", "name")
    return {
        **_first({**call, "function": ordered}, "id", "function", "type"),
        "function": {**ordered, "arguments": _parsed(function["arguments"])},
    }


def _first(value: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The same mapping, these keys before the others."""
    return {key: value[key] for key in (*keys, *value) if key in value}


def _parsed(arguments: str) -> dict[str, Any]:
    """What is no object becomes an empty one: the conversation must be able to go on."""
    try:
        parsed = json.loads(arguments)
    except json.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _consolidated(messages: list[_Message], template: Template) -> list[_Message]:
    """Where the template knows no developer, it is a system; and all systems become the first one."""
    if not any(message["role"] == "developer" for message in messages) or any(
        name in template.source for name in ('"developer"', "'developer'")
    ):
        return messages
    system: list[_Message] = []
    others: list[_Message] = []
    for message in messages:
        if message["role"] == "developer":
            message = {key: value for key, value in message.items() if key != "tools"}
            message["role"] = "system"
        (system if message["role"] == "system" else others).append(message)
    if len(system) == 1 and messages[0]["role"] in ("developer", "system"):
        return [*system, *others]
    texts = [
        content
        if isinstance(content := message["content"], str)
        else "\n".join(part["text"] for part in content)
        for message in system
    ]
    return [{"role": "system", "content": "\n\n".join(filter(None, texts))}, *others]


# Tools and variables.


def tools_of(body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The request's tools as its own types write them."""
    tools = body.get("tools")
    if tools is None:
        return None
    if not tools:
        raise PromptError("vLLM refuses an empty list of tools: leave the key out")
    return [_tool(tool) for tool in tools]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if tool.get("type", "function") != "function" or not isinstance(function, Mapping):
        raise PromptError('vLLM takes tools of the type "function" only')
    description, parameters = function.get("description"), function.get("parameters")
    if (
        not isinstance(function.get("name"), str)
        or not isinstance(description, str | None)
        or not isinstance(parameters, Mapping | None)
    ):
        raise PromptError("vLLM refuses a tool whose name, description or parameters are malformed")
    deferred = tool.get("defer_loading")
    own = deferred if function.get("defer_loading") is None else function["defer_loading"]
    made = {"name": function["name"], "description": description, "parameters": parameters}
    optional = {"strict": function.get("strict"), "defer_loading": own}
    made |= {key: value for key, value in optional.items() if value is not None}
    whole = {"type": "function", "function": made}
    return whole if deferred is None else {**whole, "defer_loading": deferred}


def said_by(body: Mapping[str, Any]) -> dict[str, Any]:
    """What the request asks the template for."""
    kwargs = body.get("chat_template_kwargs") or {}
    if body.get("chat_template") is not None or "chat_template" in kwargs:
        raise PromptError(
            "vLLM refuses a template in the request unless it is told to trust it: "
            "pass the template when the model is made"
        )
    effort = body.get("reasoning_effort")
    said = {
        "add_generation_prompt": body.get("add_generation_prompt", True),
        "continue_final_message": body.get("continue_final_message", False),
        "documents": body.get("documents"),
        "reasoning_effort": effort,
    }
    if effort is not None and "enable_thinking" not in kwargs:
        said["enable_thinking"] = effort != "none"
    return _merged(kwargs, said)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both; a null, and "auto", counts as not said."""
    return {**under, **{key: value for key, value in over.items() if value not in (None, "auto")}}


def _rendered(template: Template, messages: list[_Message], variables: dict[str, Any]) -> str:
    if not messages:
        raise PromptError("vLLM refuses a request without messages")
    known = _known_to(template)
    said = {**_GIVEN, **{key: value for key, value in variables.items() if key in known}}
    continued = said.pop("continue_final_message", False)
    if not continued:
        return template.fill({"messages": messages, **said})
    if said["add_generation_prompt"]:
        raise PromptError("vLLM continues a message only with add_generation_prompt: false")
    return _continuing(template, messages, said)


@functools.lru_cache(maxsize=32)
def _known_to(template: Template) -> frozenset[str]:
    """The variables that reach the template; of others of a request, it is not told."""
    known = template.undeclared | {*_GIVEN, "continue_final_message"}
    return known - _ARGUMENTS - {"messages"}


def _continuing(template: Template, messages: list[_Message], said: Mapping[str, Any]) -> str:
    """The prompt up to the end of the last message, which stays open."""
    if "content" not in template.source:
        raise PromptError("vLLM continues a message only if the template names its content")
    messages = copy.deepcopy(messages)
    last = messages[-1]
    if isinstance(last["content"], list):
        if not last["content"]:
            raise PromptError("vLLM continues a message only if it has a text")
        text = last["content"][-1]["text"]
        last["content"][-1]["text"] += _TAG
    else:
        text = last["content"]
        last["content"] += _TAG
    prompt = template.fill({"messages": messages, **said})
    tag = _TAG.strip()
    if text.strip() not in prompt or tag not in prompt:
        raise PromptError("vLLM refuses to continue a message that the template changes")
    at = prompt.rindex(tag)
    whole = prompt[at : at + len(_TAG)] == _TAG
    return prompt[:at] if whole else prompt[:at].rstrip()


VLLM = dialect()
"""vLLM as it starts by default."""
