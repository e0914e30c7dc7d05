"""kvagent for the OpenAI SDK: wrap a client, and its prompts stay cached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvagent_openai import adapter
from kvagent_openai.adapter import engine_of, wrap

if TYPE_CHECKING:
    from kvagent_openai.http_clients import KVAsyncHttpxClient, KVHttpxClient
    from kvagent_openai.summarizer import Summarizer

__all__ = ["KVAsyncHttpxClient", "KVHttpxClient", "Summarizer", "adapter", "engine_of", "wrap"]


def __getattr__(name: str) -> object:
    # They derive from classes of the SDK, which is not imported for as long as nobody needs it:
    # `kvagent.wrap` asks this adapter about the clients of other libraries too.
    if name in {"KVAsyncHttpxClient", "KVHttpxClient"}:
        from kvagent_openai import http_clients

        return getattr(http_clients, name)
    if name == "Summarizer":
        from kvagent_openai import summarizer

        return summarizer.Summarizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
