"""What did a ChatOpenAI send, whose answers are said beforehand?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
from langchain_core.messages import AIMessage, BaseMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 5,
    "total_tokens": 25,
    "prompt_tokens_details": {"cached_tokens": 16},
}


class Sent:
    """A ChatOpenAI whose requests are kept, and whose answers are said beforehand."""

    def __init__(self) -> None:
        self.body = b""
        self.answer: dict[str, Any] = {}
        self.stream: list[dict[str, Any]] = []
        self.client = httpx.Client(transport=httpx.MockTransport(self._answered))
        self.model = ChatOpenAI(
            model="m",
            base_url="http://model.example/v1",
            api_key=SecretStr("x"),
            http_client=self.client,
        )

    def _answered(self, request: httpx.Request) -> httpx.Response:
        self.body = request.read()
        if self.stream:
            lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in self.stream]
            return httpx.Response(
                200, text="".join(lines), headers={"content-type": "text/event-stream"}
            )
        return httpx.Response(200, json=completion(**self.answer))

    def messages(self, messages: Sequence[BaseMessage], **options: Any) -> bytes:
        """The bytes of the list of messages in the request for these."""
        self.model.invoke(list(messages), **options)
        return _of(self.body, "messages")


def completion(
    message: dict[str, Any] | None = None,
    finish_reason: str = "stop",
    usage: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "ok", **(message or {})},
                "finish_reason": finish_reason,
            }
        ],
        "usage": USAGE if usage is None else usage,
    }


def _of(body: bytes, key: str) -> bytes:
    """The bytes of a value in a body, as they stand there."""
    text = body.decode()
    at = text.index(f'"{key}":') + len(key) + 3
    _, end = json.JSONDecoder().raw_decode(text, at)
    return text[at:end].encode()


def dumped(value: Any) -> bytes:
    """JSON as the OpenAI SDK writes it."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).encode()  # fmt: skip


def generated(*arguments: str, **kept: Any) -> AIMessage:
    """The answer that ChatOpenAI makes of such arguments, with them kept beside."""
    raw = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "read", "arguments": text}}
        for n, text in enumerate(arguments)
    ]
    sent = Sent()
    sent.answer = {"message": {"content": None, "tool_calls": raw}}
    answer = sent.model.invoke("hello")
    assert isinstance(answer, AIMessage)
    return answer.model_copy(update={"additional_kwargs": {"tool_calls": raw, **kept}})


def chunks(finish_reason: str | None, usage: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """A streamed answer."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"content": "ok"}]
    found: list[dict[str, Any]] = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    if finish_reason is not None:
        found.append(
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]}
        )
    if usage is not None:
        found.append({**base, "choices": [], "usage": usage})
    return found
