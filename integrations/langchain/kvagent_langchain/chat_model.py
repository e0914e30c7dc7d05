"""How does a ChatOpenAI come to talk to vLLM or llama.cpp through an engine, and lose nothing?

It is a ChatOpenAI: it makes its HTTP clients itself, with its own proxies, timeouts and socket
options, and each is then wrapped. What the servers answer beyond OpenAI's fields, and what
ChatOpenAI would not send again as it came (reasoning, the text of a call's arguments), is kept in
``additional_kwargs`` under the server's own names.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Self

import openai
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field, model_validator

from kvagent import Engine, Event, Policy, Stage, Store
from kvagent.summaries import Summarize
from kvagent_langchain.overflow import overflow_told
from kvagent_langchain.wire import REASONING, as_generated
from kvagent_openai import wrap
from kvagent_openai.adapter import engine_for

_OPTIONS = ("engine", "policy", "store", "namespace", "on_event", "stages", "summarizer")
_KEYS = ("api_key", "openai_api_key")
_KEY_SETTINGS = ("OPENAI_API_KEY", "LANGSMITH_GATEWAY")
_URLS = ("base_url", "openai_api_base")
_URL_SETTINGS = ("OPENAI_API_BASE", "OPENAI_BASE_URL")
_NO_KEY = "none"


class KVChatOpenAI(ChatOpenAI):
    """What ``chat_openai`` makes, where a framework wants a class: its options are the same."""

    engine: Engine = Field(exclude=True)
    """What both clients send their chat requests through."""
    stream_usage: bool | None = True
    use_responses_api: bool | None = False
    sends_as_generated: ClassVar[bool] = True
    """Tells ``KVAgentMiddleware`` that calls and reasoning go out as they came."""

    @model_validator(mode="before")
    @classmethod
    def _with_engine_and_key(cls, values: dict[str, Any]) -> dict[str, Any]:
        values = dict(values)
        options: dict[str, Any] = dict.fromkeys(_OPTIONS)
        for name in _OPTIONS:
            if not isinstance(values.get(name), bool):  # `store` is a flag of OpenAI's, too
                options[name] = values.pop(name, None)
        if options["policy"] is not None:
            options["policy"] = Policy.model_validate(options["policy"])
        options["namespace"] = options["namespace"] or ""
        values["engine"] = engine_for(**options)
        elsewhere = any(map(values.get, _URLS)) or any(map(os.getenv, _URL_SETTINGS))
        if elsewhere and not any(map(values.get, _KEYS)) and not any(map(os.getenv, _KEY_SETTINGS)):
            for name in _KEYS:
                values.pop(name, None)
            values["api_key"] = _NO_KEY  # a server of one's own asks for none, but the SDK does
        return values

    @model_validator(mode="after")
    def _through_the_engine(self) -> Self:
        if self.root_client is not None:
            self.root_client = wrap(self.root_client, engine=self.engine)
            self.client = self.root_client.chat.completions
        if self.root_async_client is not None:
            self.root_async_client = wrap(self.root_async_client, engine=self.engine)
            self.async_client = self.root_async_client.chat.completions
        return self

    # -- what goes out and what comes back

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        messages = self._convert_input(input_).to_messages()
        payload: dict[str, Any] = super()._get_request_payload(messages, stop=stop, **kwargs)
        sent = payload.get("messages")
        if sent is not None:  # else it is for the Responses API, which has forms of its own
            payload["messages"] = [
                as_generated(message, form) if isinstance(message, AIMessage) else form
                for message, form in zip(messages, sent, strict=True)
            ]
        return payload

    def _create_chat_result(
        self,
        response: dict[str, Any] | openai.BaseModel,
        generation_info: dict[str, Any] | None = None,
    ) -> ChatResult:
        result = super()._create_chat_result(response, generation_info)
        choices: Sequence[Any] = (
            response["choices"] if isinstance(response, dict) else getattr(response, "choices", ())
        )
        for generation, choice in zip(result.generations, choices, strict=False):
            if isinstance(response, dict):
                answered = choice["message"]
            else:
                # `parsed` may be anything, and is the caller's.
                answered = choice.message.model_dump(exclude={"parsed"}, warnings=False)
            _keep(generation.message, answered)
        return result

    def _convert_chunk_to_generation_chunk(
        self,
        chunk: dict[str, Any],
        default_chunk_class: type,
        base_generation_info: dict[str, Any] | None,
    ) -> ChatGenerationChunk | None:
        generated = super()._convert_chunk_to_generation_chunk(
            chunk, default_chunk_class, base_generation_info
        )
        # Streams of structured output carry the server's chunk within an event of the SDK's.
        choices = chunk.get("choices") or chunk.get("chunk", {}).get("choices")
        if generated is not None and choices:
            _keep(generated.message, choices[0]["delta"])
        return generated

    def _get_generation_chunk_from_completion(
        self, completion: openai.BaseModel
    ) -> ChatGenerationChunk:
        generated = super()._get_generation_chunk_from_completion(completion)
        for name in REASONING:  # it came chunk by chunk already
            generated.message.additional_kwargs.pop(name, None)
        return generated

    # -- an overflow is told as one

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, *args: Any, **kwargs: Any
    ) -> ChatResult:
        with overflow_told():
            return super()._generate(messages, stop, *args, **kwargs)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, *args: Any, **kwargs: Any
    ) -> ChatResult:
        with overflow_told():
            return await super()._agenerate(messages, stop, *args, **kwargs)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        with overflow_told():
            yield from super()._stream(*args, **kwargs)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        with overflow_told():
            async for chunk in super()._astream(*args, **kwargs):
                yield chunk

    # -- saved and loaded with its policy, though not with what it remembers

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        return cls.__module__.split(".")

    @property
    def lc_attributes(self) -> dict[str, Any]:
        options = {
            "policy": self.engine.policy.model_dump(mode="json", exclude_defaults=True),
            "namespace": self.engine.namespace,
        }
        return super().lc_attributes | {name: value for name, value in options.items() if value}


def chat_openai(
    model: str,
    *,
    base_url: str | None = None,
    policy: Policy | None = None,
    store: Store | str | PathLike[str] | None = None,
    namespace: str = "",
    on_event: Callable[[Event], object] | None = None,
    stages: Sequence[Stage] | None = None,
    summarizer: Summarize | None = None,
    engine: Engine | None = None,
    **options: Any,
) -> KVChatOpenAI:
    """A ChatOpenAI whose prompts stay cached on vLLM and llama.cpp.

    Args:
        model: the name under which the server has it.
        base_url: the server's, such as ``http://127.0.0.1:8000/v1``. One's own server needs no
            ``api_key``.
        policy, store, namespace, on_event, stages, summarizer: as for ``kvagent.wrap``.
        engine: one engine for several models of the same server, instead of these.
        **options: of ``ChatOpenAI``. Streams ask for usage unless ``stream_usage=False``.

    Raises:
        TypeError: an engine is given together with options of one.
    """
    own: dict[str, Any] = {
        "policy": policy,
        "store": store,
        "namespace": namespace,
        "on_event": on_event,
        "stages": stages,
        "summarizer": summarizer,
        "engine": engine,
    }
    return KVChatOpenAI(model=model, base_url=base_url, **own, **options)


def _keep(message: BaseMessage, answered: Mapping[str, Any] | None) -> None:
    """Put what the server answered, or a part of it, beside what LangChain took from it."""
    if answered is None or not isinstance(message, AIMessage):
        return
    kept = message.additional_kwargs
    kept |= {name: answered[name] for name in REASONING if isinstance(answered.get(name), str)}
    # A chunk whose calls LangChain could not read would be read once more, from here.
    if isinstance(message, AIMessageChunk):
        has_calls = bool(message.tool_call_chunks)
    else:
        has_calls = bool(message.tool_calls or message.invalid_tool_calls)
    if has_calls:
        kept["tool_calls"] = [_call(call) for call in answered["tool_calls"]]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call, or a part of one, in OpenAI's form; LangChain joins the parts by their index."""
    told = {name: call[name] for name in ("index", "id", "type") if call.get(name) is not None}
    function = call["function"]
    names = ("name", "arguments")
    return told | {
        "function": {name: function[name] for name in names if function.get(name) is not None}
    }
