"""How does an agent of LangChain come to send its prompts through an engine?

The engine decides, and the agent's state keeps what it remembers. The state's messages stay as they
are: what the model is sent is a view of them.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langgraph.types import Command

from kvagent import Engine, Event, Policy, Stage, Store
from kvagent.aside import aside
from kvagent.flow import Answer, Call, adrive, drive
from kvagent.summaries import Summarize
from kvagent_langchain.memory import Memories, Memory
from kvagent_langchain.pages import PageStore
from kvagent_langchain.recall import recall_tool
from kvagent_langchain.server import Servers
from kvagent_langchain.turn import Turn

logger = logging.getLogger("kvagent")

Response = ModelResponse[Any]
Handled = Response | ExtendedModelResponse[Any]


class KVAgentState(AgentState[Any]):
    """The agent's state with kvagent's memory of it, which neither input nor output shows."""

    kvagent: NotRequired[Annotated[list[str], PrivateStateAttr, operator.add]]


class KVAgentMiddleware(AgentMiddleware[KVAgentState, Any, Any]):
    """Keeps the prompts of a ``create_agent`` agent cached, and within the window.

    System message and tools stay as first sent, replies go back as they were, long tool results
    are shortened on arrival, and old ones cleared and compacted when there is need. All of it is a
    view: the state keeps every message whole.

    What was sent is remembered in the agent's state, so that with a checkpointer a thread that is
    resumed, in another process too, or taken back in time sends the same bytes. With ``store`` it
    is remembered there instead, for all threads together: None, a path of a SQLite file, or a
    ``kvagent.Store``. The other options are those of ``kvagent.wrap``. ``on_event`` is called with
    each event, from the thread that made the call.

    Errors of the model come out as they are. Errors of kvagent are logged, and the request goes to
    the model as it came.
    """

    state_schema = KVAgentState

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        store: Store | str | PathLike[str] | None = None,
        namespace: str = "",
        on_event: Callable[[Event], object] | None = None,
        stages: Sequence[Stage] | None = None,
        summarizer: Summarize | None = None,
    ) -> None:
        super().__init__()
        self.policy = Policy.model_validate(policy or {})  # which tells what is none

        def engine(store: Store | str | PathLike[str] | None) -> Engine:
            return Engine(
                self.policy,
                store=store,
                namespace=namespace,
                on_event=on_event,
                stages=stages,
                summarizer=summarizer,
            )

        self._first = engine(store)  # wrong settings are told at once
        self._shared = None if store is None else Memory(self._first)
        self._engine = engine
        self._memories = Memories(self._with_pages, self.policy.memory_bytes)
        self._servers = Servers()
        recall = self.policy.recall
        if recall is not None and recall.answer == "agent" and self.policy.mode == "full":
            self.tools = [recall_tool(recall, self._recalled)]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Handled:
        turn = self._opened(request)
        if turn is None:
            return handler(request)
        self._servers.ask(turn.memory.engine, request.model)

        def deliver(call: Call) -> tuple[Answer, ModelResponse[Any] | None]:
            outgoing = turn.outgoing(call)
            try:
                with aside():
                    return turn.answered(handler(outgoing))
            except Exception as error:
                refusal = turn.refused(error)
                if refusal is None:
                    raise
                return refusal, None

        try:
            response, settle = drive(turn.flow(), deliver)
            while (more := turn.settled(response, settle)) is not None:
                response, settle = drive(more, deliver)
        except Exception as error:
            if error is turn.error:
                self._servers.failed(request.model)
                raise
            rescued = turn.rescued(error)
            return handler(request) if rescued is None else rescued
        return self._closed(turn, request, turn.outcome(response))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> Handled:
        turn = self._opened(request)
        if turn is None:
            return await handler(request)
        await self._servers.aask(turn.memory.engine, request.model)

        async def deliver(call: Call) -> tuple[Answer, ModelResponse[Any] | None]:
            outgoing = turn.outgoing(call)
            try:
                with aside():
                    return turn.answered(await handler(outgoing))
            except Exception as error:
                refusal = turn.refused(error)
                if refusal is None:
                    raise
                return refusal, None

        try:
            response, settle = await adrive(turn.flow(), deliver)
            while (more := turn.settled(response, settle)) is not None:
                response, settle = await adrive(more, deliver)
        except Exception as error:
            if error is turn.error:
                self._servers.failed(request.model)
                raise
            rescued = turn.rescued(error)
            return await handler(request) if rescued is None else rescued
        return self._closed(turn, request, turn.outcome(response))

    def _opened(self, request: ModelRequest[Any]) -> Turn | None:
        """The turn that a request begins; None if kvagent cannot read it."""
        try:
            return Turn(request, partial(self._memory, request.state))
        except Exception:
            logger.exception("kvagent cannot read a request; it goes to the model as it came")
            return None

    def _memory(self, state: Mapping[str, Any], history: Sequence[bytes]) -> Memory:
        if self._shared is not None:
            return self._shared
        return self._memories.take(state.get("kvagent") or (), state["messages"], history)

    def _recalled(self, state: Mapping[str, Any], handle: str, **part: str) -> str:
        """The original of a text that was shortened for the agent with this state."""
        if self._shared is not None:
            return self._shared.engine.recall(handle, **part)
        store = PageStore(state.get("kvagent") or (), state["messages"])
        return self._with_pages(store).recall(handle, **part)

    def _with_pages(self, store: PageStore) -> Engine:
        engine = self._engine(store)
        engine.share_hints(self._first)
        return engine

    def _closed(self, turn: Turn, request: ModelRequest[Any], response: Response) -> Handled:
        """The response, with what the state is to remember of the turn."""
        if turn.memory is self._shared:
            return response
        try:
            pages = turn.memory.written(request.state["messages"])
            self._memories.give_back(turn.memory, turn.history)
        except Exception:
            logger.exception("kvagent cannot keep a turn; the response is not changed")
            return response
        if not pages:
            return response
        return ExtendedModelResponse(response, Command(update={"kvagent": pages}))
