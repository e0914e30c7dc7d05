"""How does a running vLLM server tell the tokens of a chat request?

``/v1/chat/completions/render`` takes the whole request and gives the very ids, but it is open only
with ``--enable-scale-out``. ``/tokenize`` is always open and knows fewer of a request's fields.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from kvagent.backends.prompt import messages_of
from kvagent.backends.token_answers import refused, token_ids
from kvagent.backends.values import Fetch, Fetched
from kvagent.backends.vllm_prompt import said_by, tools_of
from kvagent.backends.wire import json_object

_RENDER = "/chat/completions/render"
_TOKENIZE = "/tokenize"
_DETOKENIZE = "/detokenize"

# Closed, older than the address, or behind a proxy that passes nothing else.
_CLOSED = frozenset({401, 403, 404, 405, 501})

# As a chat request has them too.
_SAME = ("model", "add_special_tokens", "mm_processor_kwargs", "media_io_kwargs")
_OWN = ("add_generation_prompt", "continue_final_message")


def tokens(body: Mapping[str, Any]) -> Generator[Fetch, Fetched, list[int]]:
    """The ids that it computes on for a chat request.

    For gpt-oss they are right only where ``render`` is open: ``/tokenize`` renders its template,
    which a chat request does not use. Nor does ``/tokenize`` know ``tool_choice``, which matters
    under ``--exclude-tools-when-tool-choice-none``.
    """
    answer = yield Fetch(_RENDER, "api", body)
    if answer.status in _CLOSED:
        answer = yield Fetch(_TOKENIZE, "root", _as_tokenize(body))
        return token_ids(answer, "tokens", f"vLLM's {_TOKENIZE}")
    return token_ids(answer, "token_ids", f"vLLM's {_RENDER}")


def prompt(body: Mapping[str, Any]) -> Generator[Fetch, Fetched, str]:
    """The text of a chat request's prompt: what the server makes of its ids again."""
    ids = yield from tokens(body)
    named = {"model": body["model"]} if "model" in body else {}
    answer = yield Fetch(_DETOKENIZE, "root", {"tokens": ids, **named})
    text = json_object(answer).get("prompt")
    if not isinstance(text, str):
        raise refused(answer, f"vLLM's {_DETOKENIZE}")
    return text


def text_tokens(text: str, model: str | None) -> Generator[Fetch, Fetched, list[int]]:
    """The ids of a text by itself."""
    named = {"model": model} if model else {}
    asked = {"prompt": text, "add_special_tokens": False, **named}
    answer = yield Fetch(_TOKENIZE, "root", asked)
    return token_ids(answer, "tokens", f"vLLM's {_TOKENIZE}")


def _as_tokenize(body: Mapping[str, Any]) -> dict[str, Any]:
    """The chat form of ``/tokenize``: what else a request says becomes variables of the template."""
    said, tools = said_by(body), tools_of(body)
    variables = {key: value for key, value in said.items() if key not in _OWN}
    return {
        **{key: body[key] for key in _SAME if body.get(key) is not None},
        **{key: said[key] for key in _OWN if key in said},
        **({"tools": tools} if tools else {}),
        "messages": [_renamed(message) for message in messages_of(body)],
        **({"chat_template_kwargs": variables} if variables else {}),
    }


def _renamed(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A chat request's ``reasoning_content`` is renamed by the server, this one's is lost."""
    if "reasoning_content" not in message:
        return message
    renamed = {key: value for key, value in message.items() if key != "reasoning_content"}
    if renamed.get("reasoning") is None:
        renamed["reasoning"] = message["reasoning_content"]
    return renamed
