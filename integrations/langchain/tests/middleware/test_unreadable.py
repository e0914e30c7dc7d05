"""Does what cannot be read go to the model and come out as it came?"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

from .calling import BOTH_WAYS, CONVERSATION, Calling, Handler, asked, quiet, response_of


def no_json() -> list[Any]:
    return [
        HumanMessage([{"type": "text", "text": "\ud800"}]),
        HumanMessage("\ud800"),
        HumanMessage([{"type": "thing", "thing": object()}]),
        AIMessage("", tool_calls=[{"id": "1", "name": "read", "args": {"what": {1, 2}}}]),
        HumanMessage([{"type": "number", "number": 1 << 80}]),
    ]


@BOTH_WAYS
@pytest.mark.parametrize("number", range(5))
def test_what_is_no_json_goes_to_the_model_as_it_came(call: Calling, number: int) -> None:
    request, handler = asked(no_json()[number]), Handler()
    call(quiet(), request, handler)
    assert handler.requests == [request]
    assert handler.requests[0] is request


@BOTH_WAYS
def test_a_reply_that_is_no_json_comes_out(call: Calling) -> None:
    reply = no_json()[3]
    handled = call(quiet(), asked(HumanMessage("hi")), Handler(reply))
    assert response_of(handled).result[0] is reply


@pytest.mark.parametrize("pages", [["1:nothing"], [b"old"], [None], "text", {"a": 1}, 7])
def test_pages_that_cannot_be_read_do_no_harm(pages: Any) -> None:
    """The agent goes on, and what it sends from then on is remembered."""
    middleware, handler = quiet(), Handler()
    first = asked(*CONVERSATION, state={"kvagent": pages})
    handled: Any = middleware.wrap_model_call(first, handler)
    if isinstance(pages, list):
        assert handler.requests[0] is not first
        pages = [*pages, *handled.command.update["kvagent"]]
        more = (*CONVERSATION, AIMessage("fine"), HumanMessage("more"))
        quiet().wrap_model_call(asked(*more, state={"kvagent": pages}), handler)
        assert handler.requests[1].messages[2] == handler.requests[0].messages[2]
    assert response_of(handled).result == [AIMessage("fine")]


def test_a_model_needs_no_name() -> None:
    nameless = GenericFakeChatModel(messages=iter([]))
    request, handler = asked(*CONVERSATION, model=nameless), Handler()
    assert response_of(quiet().wrap_model_call(request, handler)).result[0].text == "fine"
    assert len(handler.requests[0].messages[2].text) < 5000
