"""Does an error of the model come out as it is?"""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage
from langgraph.errors import GraphInterrupt

from .calling import BOTH_WAYS, CONVERSATION, Calling, Handler, asked, quiet, response_of


class Stopped(BaseException):
    """As KeyboardInterrupt is one."""


@BOTH_WAYS
@pytest.mark.parametrize(
    "error",
    [
        ValueError("mine"),
        GraphInterrupt(()),
        Stopped(),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_model_come_out_as_they_are(call: Calling, error: BaseException) -> None:
    """And the next call is made as if it had not been."""
    middleware, handler = quiet(), Handler(error, AIMessage("fine"))
    with pytest.raises(type(error)) as raised:
        call(middleware, asked(*CONVERSATION), handler)
    if not isinstance(error, asyncio.CancelledError):  # of which asyncio makes another
        assert raised.value is error
    assert response_of(call(middleware, asked(*CONVERSATION), handler)).result[0].text == "fine"
    assert len(handler.requests) == 2
    assert handler.requests[0].messages[2].text == handler.requests[1].messages[2].text


@BOTH_WAYS
def test_a_refusal_in_which_nothing_helps_comes_out_as_it_is(call: Calling) -> None:
    error = RuntimeError("the prompt is too long")
    handler = Handler(error)
    with pytest.raises(RuntimeError) as raised:
        call(quiet(), asked(*CONVERSATION), handler)
    assert raised.value is error
