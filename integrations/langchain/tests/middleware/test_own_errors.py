"""Is the model asked once and does it answer, whatever of kvagent or its user's fails?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage

from kvagent import Engine, Policy
from kvagent.stages import Turn as StageTurn
from kvagent_langchain import view, wire
from kvagent_langchain.middleware import KVAgentMiddleware
from kvagent_langchain.pages import PageStore
from kvagent_langchain.server import Servers

from .calling import BOTH_WAYS, CONVERSATION, Calling, Handler, asked, boom, quiet, response_of


def boom_stage(turn: StageTurn) -> None:
    raise ZeroDivisionError


class BrokenStore:
    durable = True

    def __getattr__(self, name: str) -> Any:
        return boom

    add = get = batch = close = boom


@BOTH_WAYS
@pytest.mark.parametrize(
    ("options", "shortened"),
    [
        ({"stages": [boom_stage]}, False),
        ({"store": BrokenStore()}, True),
        ({"on_event": boom}, True),
    ],
    ids=["stage", "store", "on_event"],
)
def test_what_a_user_brings_may_fail(
    call: Calling, options: dict[str, Any], shortened: bool, caplog: pytest.LogCaptureFixture
) -> None:
    middleware = quiet(**options)
    for _ in range(2):
        request, handler = asked(*CONVERSATION), Handler()
        assert response_of(call(middleware, request, handler)).result == [AIMessage("fine")]
        assert len(handler.requests) == 1
        assert (handler.requests[0] is not request) is shortened
    assert caplog.text


@BOTH_WAYS
@pytest.mark.parametrize(
    ("where", "name", "shortened"),
    [
        (Engine, "turn", False),
        (Engine, "read_all", False),
        (Engine, "_ready", False),
        (Engine, "_settle", True),
        (PageStore, "__init__", False),
        (PageStore, "page", True),
        (PageStore, "get", True),
        (PageStore, "batch", True),
        (view, "messages", False),
        (wire, "message", False),
        (wire, "tools", False),
        (wire, "reply", True),
        (Servers, "_request", True),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_whatever_of_kvagent_fails_the_model_is_asked_once_and_answers(
    call: Calling,
    where: Any,
    name: str,
    shortened: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    middleware = quiet()
    monkeypatch.setattr(where, name, boom)
    request, handler = asked(*CONVERSATION), Handler()
    assert response_of(call(middleware, request, handler)).result == [AIMessage("fine")]
    assert len(handler.requests) == 1
    assert (handler.requests[0] is not request) is shortened
    assert caplog.text


def test_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="template"):
        KVAgentMiddleware(Policy(template=Path("/no/such/file")))
    with pytest.raises(ValueError, match="instance of Policy"):
        KVAgentMiddleware(cast(Any, "full"))
