"""How does LangChain learn that a prompt was too long for vLLM or llama.cpp?

It has an exception for that, ``ContextOverflowError``, and knows OpenAI's wordings of it alone. Here
the refusals of the other servers become one too, and stay the SDK's error that they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import openai
from langchain_core.exceptions import ContextOverflowError
from langchain_openai.chat_models.base import (
    OpenAIAPIContextOverflowError,
    OpenAIContextOverflowError,
)

from kvagent_langchain.refusal import refusal_of


@contextmanager
def overflow_told() -> Iterator[None]:
    """Raise an overflow within the block as LangChain's error; every other error as it is."""
    try:
        yield
    except openai.APIError as error:
        overflowed = as_overflow(error)
        if overflowed is None:
            raise
        raise overflowed from error


def as_overflow(error: openai.APIError) -> ContextOverflowError | None:
    """An error like the given one that LangChain knows as well; None if it is no overflow.

    It has the class of the SDK that the given one has (``BadRequestError``, ``InternalServerError``
    for a prompt that llama.cpp gave up, ``APIError`` for one within a stream), its message and
    body, and its response where there is one. None also where LangChain has recognised it itself.
    """
    if isinstance(error, ContextOverflowError) or refusal_of(error) is None:
        return None
    raised = _overflowing(next(kind for kind in type(error).__mro__ if _of_the_sdk(kind)))
    source: dict[str, Any] = (
        {"response": error.response}
        if isinstance(error, openai.APIStatusError)
        else {"request": error.request}
    )
    told: ContextOverflowError = raised(message=error.message, body=error.body, **source)
    return told


def _of_the_sdk(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "openai"


@cache
def _overflowing(kind: type) -> Any:
    """LangChain's own class where it has one for that kind of error, or one made alike."""
    for known in (OpenAIContextOverflowError, OpenAIAPIContextOverflowError):
        if known.__bases__[0] is kind:
            return known
    name = f"OpenAI{kind.__name__.removesuffix('Error')}ContextOverflowError"
    return type(name, (kind, ContextOverflowError), {"__module__": __name__})
