"""How do the prompts of a chat model grow, what of them is cached, and where does their prefix break?

A callback that looks and never touches, for any chat model of LangChain. It is shown the messages
that are handed to the model, and takes them in the form in which ChatOpenAI would send them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.tracers.context import register_configure_hook

from kvagent import Event
from kvagent.flow import Answer, Flow, Settle
from kvagent_langchain.counts import Counts, MissingUsageWarning
from kvagent_langchain.observed import (
    answers_of,
    body_of,
    is_from_cache,
    model_of,
    reply_of,
    session_of,
)

__all__ = ["KVMeter", "MissingUsageWarning", "kv_meter"]

# Requests under way; if they are more, the oldest are taken for lost.
_MOST_PENDING_BYTES = 256 * 1024 * 1024
_RUN_BYTES = 16 * 1024

_WARN_AT = (0.70, 0.85, 0.95)


@dataclass(slots=True)
class _Run:
    """A request that is under way."""

    model: str
    flow: Flow
    size: int
    began: float
    first: float | None = None
    """When its first chunk came; None while none did."""


class KVMeter(Counts, BaseCallbackHandler):
    """Tells how prompts grow, what of them is cached, and where their prefix breaks and why.

    For any chat model, invoked or streamed, sync or async, alone, in a batch or in an agent::

        meter = KVMeter()
        agent.invoke({"messages": [...]}, {"callbacks": [meter]})
        print(meter)

    It changes no message, and counts what replies report in ``usage_metadata``. ``window`` are the
    tokens that one conversation may have, for every model or by the model's name; without it, it
    is learned from the first prompt that is refused. At each share ``warn_at`` of the window a
    ``WindowFilling`` is told. ``on_event`` is called with each event as it happens, in the thread
    that runs the model, so it must be quick; breaks come as ``PrefixBroken``. Conversations are
    known by their content, and named by LangGraph's ``thread_id`` or by ``kvagent.session``.

    One meter may be shared by many models and threads. It sees what LangChain hands to the model:
    what is changed below that, as by the engine of ``chat_openai``, that engine's own events tell.
    """

    # A turn costs milliseconds and no I/O. In the executor it would wait for tools that block.
    run_inline = True

    def __init__(
        self,
        *,
        window: int | Mapping[str, int] | None = None,
        warn_at: Sequence[float] = _WARN_AT,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        super().__init__(window, warn_at, on_event)
        self._runs: OrderedDict[UUID, _Run] = OrderedDict()
        self._pending_bytes = 0

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Compare a request with what was sent before it."""
        params = kwargs.get("invocation_params") or {}
        model = model_of(serialized or {}, params, metadata or {})
        body = body_of(model, messages[0], params)
        flow = self._engine(model).turn(body, session=session_of(metadata or {}))
        next(flow)
        run = _Run(model, flow, len(body) + _RUN_BYTES, perf_counter())
        with self._lock:
            self._runs[run_id] = run
            self._pending_bytes += run.size
            while self._pending_bytes > _MOST_PENDING_BYTES and len(self._runs) > 1:
                self._pending_bytes -= self._runs.popitem(last=False)[1].size

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note when a stream began."""
        run = self._runs.get(run_id)
        if run is not None and run.first is None:
            run.first = perf_counter()

    def on_stream_event(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note when a stream of events began."""
        self.on_llm_new_token("", run_id=run_id)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Count a request that was answered."""
        run, answers = self._taken(run_id), answers_of(response)
        if run is None:
            return
        if not answers or is_from_cache(answers[0]):
            run.flow.close()
            return
        settle = _answered(run.flow, Answer(200))
        settle(reply_of(answers), (run.first or perf_counter()) - run.began)
        if answers[0].usage_metadata is None:
            self._uncounted(run.model)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Forget a request that failed, but for what a refusal says of the window."""
        run = self._taken(run_id)
        if run is None:
            return
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and status >= 400:
            _answered(run.flow, Answer(status, str(error).encode(errors="replace")))
        else:
            run.flow.close()

    def _taken(self, run_id: UUID) -> _Run | None:
        with self._lock:
            run = self._runs.pop(run_id, None)
            self._pending_bytes -= 0 if run is None else run.size
            return run


# One variable for each block that is open inside another: LangChain never forgets a hook.
_meters: list[ContextVar[KVMeter | None]] = []
_meters_lock = Lock()


@contextmanager
def kv_meter(
    *,
    window: int | Mapping[str, int] | None = None,
    warn_at: Sequence[float] = _WARN_AT,
    on_event: Callable[[Event], object] | None = None,
) -> Generator[KVMeter, None, None]:
    """Measure every chat model that runs inside the block; options as for ``KVMeter``::

        with kv_meter() as meter:
            agent.invoke({"messages": [...]})
        print(meter)

    Of nested blocks each counts all that runs in it. Tasks and LangChain's own threads inherit it,
    a plain thread does not.
    """
    meter = KVMeter(window=window, warn_at=warn_at, on_event=on_event)
    with _meters_lock:
        variable = next((each for each in _meters if each.get() is None), None)
        if variable is None:
            variable = ContextVar(f"kvagent_meter_{len(_meters)}", default=None)
            register_configure_hook(variable, inheritable=True)
            _meters.append(variable)
    token = variable.set(meter)
    try:
        yield meter
    finally:
        variable.reset(token)


def _answered(flow: Flow, answer: Answer) -> Settle:
    """How to settle the reply. An engine that only looks never asks for a second call."""
    try:
        flow.send(answer)
    except StopIteration as stop:
        settle: Settle = stop.value
        return settle
    raise RuntimeError("an engine that only looks wanted to send")
