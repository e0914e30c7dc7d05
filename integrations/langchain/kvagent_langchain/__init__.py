"""kvagent for LangChain: agents whose prompts stay cached, and a callback that measures it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvagent_langchain.chat_model import KVChatOpenAI, chat_openai
    from kvagent_langchain.meter import KVMeter, MissingUsageWarning, kv_meter
    from kvagent_langchain.middleware import KVAgentMiddleware

__all__ = [
    "KVAgentMiddleware",
    "KVChatOpenAI",
    "KVMeter",
    "MissingUsageWarning",
    "chat_openai",
    "kv_meter",
]

# Each needs other parts of LangChain: the meter the core alone, ChatOpenAI langchain-openai.
_HOMES = {
    "KVAgentMiddleware": "middleware",
    "KVChatOpenAI": "chat_model",
    "KVMeter": "meter",
    "MissingUsageWarning": "meter",
    "chat_openai": "chat_model",
    "kv_meter": "meter",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{home}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"kvagent_openai", "langchain_openai"}:
            raise
        raise ImportError(
            f"kvagent_langchain.{name} needs ChatOpenAI: pip install 'kvagent-langchain[openai]'"
        ) from error
    return vars(module)[name]
