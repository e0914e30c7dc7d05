"""How does a running llama.cpp server tell the tokens of a chat request?

``/apply-template`` takes the whole request and gives its prompt; ``/tokenize`` gives the ids. Both
need no slot: they answer while the server computes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from kvagent.backends.token_answers import refused, token_ids
from kvagent.backends.values import Fetch, Fetched
from kvagent.backends.wire import json_object

_TEMPLATE = "/apply-template"
_TOKENIZE = "/tokenize"


def prompt(body: Mapping[str, Any]) -> Generator[Fetch, Fetched, str]:
    """The text of a chat request's prompt, without what the tokenizer adds at its ends."""
    answer = yield Fetch(_TEMPLATE, "root", body)
    text = json_object(answer).get("prompt")
    if not isinstance(text, str):
        raise refused(answer, f"llama.cpp's {_TEMPLATE}")
    return text


def tokens(body: Mapping[str, Any]) -> Generator[Fetch, Fetched, list[int]]:
    """The ids that it computes on for a chat request."""
    text = yield from prompt(body)
    # As it tokenises the prompt of a chat.
    return (yield from _ids({"content": text, "add_special": True, **_model_of(body)}))


def text_tokens(text: str, model: str | None) -> Generator[Fetch, Fetched, list[int]]:
    """The ids of a text by itself."""
    named = {"model": model} if model else {}
    return (yield from _ids({"content": text, "add_special": False, **named}))


def _ids(asked: Mapping[str, Any]) -> Generator[Fetch, Fetched, list[int]]:
    answer = yield Fetch(_TOKENIZE, "root", {**asked, "parse_special": True})
    return token_ids(answer, "tokens", f"llama.cpp's {_TOKENIZE}")


def _model_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """A server of several models goes by this name."""
    return {"model": body["model"]} if "model" in body else {}
