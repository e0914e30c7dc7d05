"""What does a model answer whose server caches every prompt, and how much does it say was cached?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os.path import commonprefix
from threading import Lock
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field, PrivateAttr

TOKEN = 4
"""Characters of a token."""


def common(one: str, other: str) -> int:
    return len(commonprefix((one, other)))  # noqa: RUF071 - characters are meant, not paths


class CachingModel(BaseChatModel):
    """A model whose server caches every prompt and every reply, and says how much it took from there."""

    model: str = "caching-7b"
    reports: str = "all"
    """``all``, ``no_cached`` or ``nothing``."""
    failing: int = 0
    """How many of the next requests fail."""
    calls: list[dict[str, Any]] = Field(default_factory=list)
    """Of the next replies."""

    _kept: list[str] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=Lock)
    _made: int = 0

    @property
    def _llm_type(self) -> str:
        return "caching"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self.bind(tools=list(tools), **options)

    def _reply(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        with self._lock:
            if self.failing:
                self.failing -= 1
                raise ConnectionError("the server went away")
            prompt = json.dumps([str(options.get("tools")), options.get("reasoning_effort")])
            prompt += "".join(f"<{m.type[:2].lower()}>{m.text}" for m in messages)
            cached = max((common(prompt, kept) for kept in self._kept), default=0)
            self._made += 1
            text = f"Answer number {self._made}, which nobody else would give in these words."
            self._kept.append(f"{prompt}<ai>{text}")
            calls = [self.calls.pop(0)] if self.calls else []
        usage: Any = None
        if self.reports != "nothing":
            usage = {
                "input_tokens": len(prompt) // TOKEN,
                "output_tokens": len(text) // TOKEN,
                "total_tokens": len(prompt) // TOKEN + len(text) // TOKEN,
            }
            if self.reports == "all":
                usage["input_token_details"] = {"cache_read": cached // TOKEN}
        return AIMessage(text, usage_metadata=usage, tool_calls=calls)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        message = self._reply(messages, options)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._reply(messages, options)
        words = message.text.split(" ")
        for at, word in enumerate(words):
            text = word if at == len(words) - 1 else f"{word} "
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=text))
            if run_manager is not None:
                run_manager.on_llm_new_token(text, chunk=chunk)
            yield chunk
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="", usage_metadata=message.usage_metadata, chunk_position="last"
            )
        )
