"""Is a request ever lost, or an error changed, on its way through the middleware?"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import openai
import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRequest,
    ModelResponse,
    ModelRetryMiddleware,
)
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt

from kvagent import Engine, Event, Overflowed, Policy
from kvagent.backends import Server
from kvagent.policy import Hints, Recall
from kvagent.stages import Turn as StageTurn
from kvagent_langchain import view, wire
from kvagent_langchain.chat_model import chat_openai
from kvagent_langchain.middleware import KVAgentMiddleware
from kvagent_langchain.pages import PageStore
from kvagent_langchain.server import Servers

from .task_agent import CONFIG, POLICY, agent, model, read, task
from .task_server import TaskServer, task_server

NOWHERE = "http://127.0.0.1:9/v1"
# Two tasks are shortened and cleared in it.
NARROW = Policy(window=1500)
LONG = "a long result\n" * 2000


@pytest.fixture
def tasks() -> Iterator[TaskServer]:
    with task_server() as server:
        yield server


def asked(*messages: AnyMessage, **options: Any) -> ModelRequest[Any]:
    """A request as an agent makes it; nothing is asked of a server."""
    options = {"model": model(NOWHERE), "tools": [read], **options}
    state: Any = {"messages": list(messages), **options.pop("state", {})}
    return ModelRequest(messages=list(messages), state=state, **options)


def quiet(**options: Any) -> KVAgentMiddleware:
    """It does not ask servers what they are."""
    policy = options.pop("policy", Policy(window=4000, probe=False))
    return KVAgentMiddleware(policy, **options)


CONVERSATION: tuple[AnyMessage, ...] = (
    HumanMessage("look"),
    AIMessage("", tool_calls=[{"id": "1", "name": "read", "args": {"task": 1, "step": 2}}]),
    ToolMessage(LONG, tool_call_id="1"),
)


class Handler:
    """The model, and what it was handed."""

    def __init__(self, *outcomes: AIMessage | BaseException) -> None:
        self.outcomes = list(outcomes) or [AIMessage("fine")]
        self.requests: list[ModelRequest[Any]] = []

    def __call__(self, request: ModelRequest[Any]) -> ModelResponse[Any]:
        self.requests.append(request)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return ModelResponse([outcome])

    async def acall(self, request: ModelRequest[Any]) -> ModelResponse[Any]:
        return self(request)


Calling = Callable[[KVAgentMiddleware, ModelRequest[Any], Handler], Any]


def sync_call(middleware: KVAgentMiddleware, request: ModelRequest[Any], handler: Handler) -> Any:
    return middleware.wrap_model_call(request, handler)


def async_call(middleware: KVAgentMiddleware, request: ModelRequest[Any], handler: Handler) -> Any:
    async def call() -> Any:
        return await middleware.awrap_model_call(request, handler.acall)

    return asyncio.run(call())


BOTH_WAYS = pytest.mark.parametrize("call", [sync_call, async_call])


def response_of(handled: Any) -> ModelResponse[Any]:
    return handled.model_response if isinstance(handled, ExtendedModelResponse) else handled


# -- a view


@BOTH_WAYS
def test_a_long_result_is_shortened_for_the_model_alone(call: Calling) -> None:
    request, handler = asked(*CONVERSATION), Handler()
    handled = call(quiet(), request, handler)
    assert response_of(handled).result == [AIMessage("fine")]
    (sent,) = handler.requests
    assert sent.messages[0] is CONVERSATION[0]
    assert sent.messages[1] is CONVERSATION[1]
    assert len(sent.messages[2].text) < 5000 < len(LONG)
    assert request.messages[2].text == LONG


@BOTH_WAYS
def test_what_needs_no_change_is_the_very_request(call: Calling) -> None:
    request, handler = asked(HumanMessage("hi")), Handler()
    call(quiet(), request, handler)
    assert handler.requests[0] is request


def test_the_memory_is_no_part_of_what_comes_out(tasks: TaskServer) -> None:
    working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)])
    assert set(working.invoke(task(0))) == {"messages"}


def test_what_a_state_holds_is_json(tasks: TaskServer) -> None:
    working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=InMemorySaver())
    working.invoke(task(0), CONFIG)
    assert json.dumps(working.get_state(CONFIG).values["kvagent"])


# -- errors


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


def boom(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


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


def test_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="template"):
        KVAgentMiddleware(Policy(template=Path("/no/such/file")))
    with pytest.raises(ValueError, match="instance of Policy"):
        KVAgentMiddleware(cast(Any, "full"))


# -- with others around it


class Twice(AgentMiddleware[Any, Any, Any]):
    """Calls the model again, and takes the second answer."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        handler(request)
        return handler(request)


class Failing(AgentMiddleware[Any, Any, Any]):
    """Every second call of the model fails."""

    calls = 0

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.calls += 1
        if self.calls % 2:
            raise ConnectionError
        return handler(request)


def retry() -> ModelRetryMiddleware:
    return ModelRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)


@pytest.mark.parametrize("checkpointed", [True, False])
@pytest.mark.parametrize(
    ("outside", "inside", "calls"),
    [
        ([], [], 1),
        ([Twice], [], 2),
        ([], [Twice], 2),
        ([retry], [Failing], 1),
        ([], [retry, Failing], 1),
    ],
    ids=["alone", "twice outside", "twice inside", "retry outside", "retry inside"],
)
def test_calls_made_again_are_the_same(
    tasks: TaskServer,
    checkpointed: bool,
    outside: list[Any],
    inside: list[Any],
    calls: int,
) -> None:
    middleware: list[Any] = [
        *(make() for make in outside),
        KVAgentMiddleware(NARROW),
        *(make() for make in inside),
    ]
    options = {"checkpointer": InMemorySaver()} if checkpointed else {}
    working = agent(tasks.base_url, middleware, **options)
    messages: list[Any] = []
    for number in range(2):
        given = task(number)["messages"]
        messages = working.invoke(
            {"messages": [*([] if checkpointed else messages), *given]}, CONFIG
        )["messages"]
    sent = tasks.bodies[::calls]
    assert all(tasks.bodies[at::calls] == sent for at in range(calls))
    plain = agent(tasks.base_url, [KVAgentMiddleware(NARROW)], checkpointer=InMemorySaver())
    tasks.bodies.clear()
    for number in range(2):
        plain.invoke(task(number), CONFIG)
    assert sent == tasks.bodies


def test_another_model_may_take_over(tasks: TaskServer) -> None:
    """It is sent the whole conversation, and its prompts grow as well."""
    fallback = model(tasks.base_url).model_copy(update={"model_name": "other"})
    middleware: list[Any] = [ModelFallbackMiddleware(fallback), KVAgentMiddleware(POLICY)]
    working = agent(model(NOWHERE), middleware, checkpointer=InMemorySaver())
    for number in range(2):
        working.invoke(task(number), CONFIG)
    requests = tasks.requests
    assert len(requests) == 10
    assert {request["model"] for request in requests} == {"other"}
    for before, after in pairwise(requests):
        assert after["messages"][: len(before["messages"])] == before["messages"]


# -- overflow


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
def test_a_window_smaller_than_believed_is_learned(raw: bool, streaming: bool) -> None:
    events: list[Event] = []
    with task_server(3000) as server:
        answering = (
            chat_openai("task", base_url=server.base_url, max_retries=0, streaming=streaming)
            if raw
            else model(server.base_url, streaming=streaming)
        )
        policy = Policy(window=30_000)
        working = agent(
            answering,
            [KVAgentMiddleware(policy, on_event=events.append)],
            checkpointer=InMemorySaver(),
        )
        for number in range(5):
            working.invoke(task(number), CONFIG)
        assert server.refused == 1
        assert len(server.bodies) == 25
    (overflowed,) = [event for event in events if isinstance(event, Overflowed)]
    assert overflowed.window == 3000


def test_what_cannot_be_made_to_fit_is_the_models_own_error() -> None:
    with task_server(300) as server:
        working = agent(server.base_url, [KVAgentMiddleware(Policy(window=30_000))])
        with pytest.raises(openai.BadRequestError) as raised:
            working.invoke({"messages": [{"role": "user", "content": "so long " * 500}]})
        assert "exceeds the available context size" in str(raised.value)
        assert not server.bodies


def test_an_overflow_told_within_a_stream_is_one() -> None:
    """The error has no status there."""
    body = {"code": 400, "message": "exceed_context_size_error: the request exceeds the available "
            "context size", "type": "exceed_context_size_error", "n_prompt_tokens": 9000,
            "n_ctx": 8000}  # fmt: skip
    error = openai.APIError("in the stream", request=None, body=body)  # type: ignore[arg-type]
    long = [
        message
        for at in range(20)
        for message in (
            HumanMessage(f"question {at}"),
            AIMessage("", tool_calls=[{"id": f"{at}", "name": "read", "args": {"task": at}}]),
            ToolMessage(f"line of {at}\n" * 200, tool_call_id=f"{at}"),
        )
    ]
    handler = Handler(error, AIMessage("fine"))
    middleware = quiet(policy=Policy(window=30_000, probe=False))
    handled = middleware.wrap_model_call(asked(*long), handler)
    assert response_of(handled).result == [AIMessage("fine")]
    first, second = (sum(len(m.text) for m in each.messages) for each in handler.requests)
    assert second < first


# -- recall

LINES = "\n".join(f"line {line}: {line * 7919 % 10007}" for line in range(3000))


def asking(request: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a text, asks for the lines that were left out, and tells what it was told."""
    last = request["messages"][-1]
    if last["role"] == "user":
        return _calling("call_1", "look", {})
    handle = re.search(r"\br[0-9a-f]{12}\b", last["content"])
    if handle is not None and last["tool_call_id"] == "call_1":
        return _calling("call_2", "kvagent_recall", {"handle": handle[0], "lines": "1500-1501"})
    return {"role": "assistant", "content": f"It says: {last['content']}"}


def _calling(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def look() -> str:
    """Look at the text."""
    return LINES


@pytest.mark.parametrize("store", [None, "kvagent.db"])
@pytest.mark.parametrize("answer", ["kvagent", "agent"])
def test_a_model_gets_back_what_was_shortened(
    answer: Any, store: str | None, tmp_path: Any
) -> None:
    policy = Policy(window=6000, recall=Recall(answer=answer))
    saver = InMemorySaver()
    with task_server(reply=asking) as server:
        for turn in range(2):
            middleware = KVAgentMiddleware(policy, store=store and tmp_path / store)
            working = agent(server.base_url, [middleware], tools=[look], checkpointer=saver)
            given = {"messages": [{"role": "user", "content": f"look {turn}"}]}
            messages = working.invoke(given, CONFIG)["messages"]
            told = f"It says: line 1499: {1499 * 7919 % 10007}\nline 1500: {1500 * 7919 % 10007}\n"
            assert messages[-1].text == told
        requests = server.requests
    hidden = [m for m in messages if "kvagent_recall" in str(getattr(m, "tool_calls", ""))]
    assert len(hidden) == (2 if answer == "agent" else 0)
    assert len(requests) == 6
    names = [tool["function"]["name"] for tool in requests[0]["tools"]]
    assert sorted(names) == ["kvagent_recall", "look"]
    for before, after in pairwise(requests):
        assert after["tools"] == before["tools"]
        assert after["messages"][: len(before["messages"])] == before["messages"]


# -- servers


def test_conversations_of_one_server_are_given_slots_of_their_own(
    tasks: TaskServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(_: Servers, engine: Engine, __: Any) -> None:
        engine.know(Server("llama.cpp", window=4000, slots=4))

    monkeypatch.setattr(Servers, "ask", known)
    middleware = KVAgentMiddleware(Policy(hints=Hints(id_slot="conversation")))
    working = agent(tasks.base_url, [middleware], checkpointer=InMemorySaver())
    for name in ("a", "b", "a"):
        working.invoke(task(ord(name), 1), {"configurable": {"thread_id": name}})
    assert [request["id_slot"] for request in tasks.requests] == [0, 0, 1, 1, 0, 0]
