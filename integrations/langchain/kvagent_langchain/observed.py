"""What does a callback learn of a request?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import orjson
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from kvagent.backends import PROMPT_KEYS
from kvagent.chat import ChatReply
from kvagent_langchain import wire


def model_of(
    serialized: Mapping[str, Any], params: Mapping[str, Any], metadata: Mapping[str, Any]
) -> str:
    """The name under which the caller knows the model, else that of its class."""
    named = (params.get("model"), params.get("model_name"), metadata.get("ls_model_name"))
    return str(next(filter(None, (*named, serialized.get("name"))), "model"))


def session_of(metadata: Mapping[str, Any]) -> str | None:
    """The conversation, as LangGraph knows it: of one thread, agents and summaries apart."""
    thread = metadata.get("thread_id")
    if not thread:
        return None
    apart = (metadata.get("lc_agent_name"), metadata.get("lc_source"))
    return "/".join(map(str, (thread, *filter(None, apart))))


def body_of(model: str, messages: Sequence[BaseMessage], params: Mapping[str, Any]) -> bytes:
    """The request as ChatOpenAI would send it, as far as it shapes the prompt."""
    options = {**(params.get("model_kwargs") or {}), **(params.get("extra_body") or {}), **params}
    body = {key: options[key] for key in sorted(PROMPT_KEYS & options.keys()) if options[key]}
    body["model"] = model
    tools = params.get("tools")
    if tools:
        body["tools"] = _tools(tools)
    body["messages"] = [_message(message) for message in messages]
    try:
        return orjson.dumps(body, default=str)
    except TypeError:  # an integer of more than 64 bits, half a surrogate pair
        return json.dumps(body, default=str).encode()


def reply_of(answers: Sequence[AIMessage]) -> ChatReply:
    """What the engine is told of an answer: of several choices, each has the counts of all."""
    first = answers[0]
    try:
        replies = [wire.reply(answer, as_generated=False) for answer in answers]
    except (TypeError, ValueError):  # of a kind that only its own provider knows
        usage = first.usage_metadata
        return ChatReply(counts={} if usage is None else {"usage": wire.usage(usage)})
    messages = tuple(message for reply in replies for message in reply.messages)
    return replace(replies[0], messages=messages)


def answers_of(response: LLMResult) -> list[AIMessage]:
    """What the model answered, one message a choice."""
    generations = response.generations[0] if response.generations else []
    messages = (each.message for each in generations if isinstance(each, ChatGeneration))
    return [message for message in messages if isinstance(message, AIMessage)]


def is_from_cache(answer: AIMessage) -> bool:
    """Whether LangChain's own cache gave the answer, so that no server was asked."""
    usage = cast("Mapping[str, Any]", answer.usage_metadata or {})
    return usage.get("total_cost") == 0


def _message(message: BaseMessage) -> dict[str, Any]:
    with suppress(TypeError, ValueError):
        return wire.message(message)
    # Of a kind that only its own provider knows: what counts is whether it is the same next time.
    return {"role": message.type, "content": str(message.content)}


def _tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    with suppress(TypeError, ValueError):
        return wire.tools(tools)
    return [tool if isinstance(tool, dict) else {"type": str(tool)} for tool in tools]
