"""Which running servers can be asked for the tokens of a chat request?"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeAlias

from kvagent.backends import llamacpp_tokens, vllm_tokens
from kvagent.backends.prompt import PromptError
from kvagent.backends.values import Fetch, Fetched, Server

_Ids: TypeAlias = Generator[Fetch, Fetched, list[int]]
_Text: TypeAlias = Generator[Fetch, Fetched, str]


class _Way(NamedTuple):
    tokens: Callable[[Mapping[str, Any]], _Ids]
    prompt: Callable[[Mapping[str, Any]], _Text]
    text_tokens: Callable[[str, str | None], _Ids]


_WAYS = {
    "vllm": _Way(vllm_tokens.tokens, vllm_tokens.prompt, vllm_tokens.text_tokens),
    "llama.cpp": _Way(llamacpp_tokens.tokens, llamacpp_tokens.prompt, llamacpp_tokens.text_tokens),
}


def tokens(server: Server, body: Mapping[str, Any]) -> _Ids:
    """The ids that ``server`` computes on for a chat request with this body.

    Raises:
        PromptError: it refuses the request, does not answer, or is of a kind that tells no tokens.
    """
    return _of(server).tokens(body)


def prompt(server: Server, body: Mapping[str, Any]) -> _Text:
    """The text of its prompt; see ``tokens``."""
    return _of(server).prompt(body)


def text_tokens(server: Server, text: str) -> _Ids:
    """The ids of a text by itself; see ``tokens``."""
    return _of(server).text_tokens(text, server.model)


def _of(server: Server) -> _Way:
    if (way := _WAYS.get(server.kind)) is None:
        raise PromptError(
            "this server tells no tokens, as vLLM and llama.cpp do",
            "pass the model's GGUF file or its Hugging Face folder",
        )
    return way
