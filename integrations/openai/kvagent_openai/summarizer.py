"""Who tells what old turns held? A model, asked through the user's own client.

Beside the engine, never through it: the call is no turn of the conversation. It has a timeout of its
own, is repeated only for what may pass, and is not made for a while after it failed again and again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache, cached_property
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from kvagent.backends import overflow_of
from kvagent.compaction import SummaryFailed, SummaryReply
from kvagent_openai.adapter import accepts
from kvagent_openai.delegates import AsyncDelegate, SyncDelegate
from kvagent_openai.library import library_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

_PATH = "/chat/completions"
_PASSING = frozenset((408, 409, 425, 429))
"""Beside 5xx, the statuses that say: not now."""
_LONGEST_WAIT_S = 8.0


class Summarizer:
    """Asks a model for narratives.

    Args:
        client: an ``OpenAI`` or ``AsyncOpenAI`` client; of a wrapped one, what was wrapped.
        model: in place of the conversation's own, whose cache it can then not use; None to keep it.
        timeout_s: of one attempt; none is begun later than this after the first.
        max_tokens: the most that is generated, where the request allows more.
        attempts: how often a request is made that fails for what may pass.
        failures: after so many in a row, no request is made ...
        silence_s: ... for so long.
        clock: seconds, never set back.

    Raises:
        TypeError: ``client`` is no client of the OpenAI SDK.
    """

    def __init__(
        self,
        client: OpenAI | AsyncOpenAI,
        model: str | None = None,
        *,
        timeout_s: float = 60.0,
        max_tokens: int | None = None,
        attempts: int = 3,
        failures: int = 3,
        silence_s: float = 300.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if not accepts(client):
            kind = f"{type(client).__module__}.{type(client).__qualname__}"
            raise TypeError(f"kvagent_openai.Summarizer: a {kind} is no client of the OpenAI SDK")
        self._client: Any = unwrapped(client)
        self._model = model
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._attempts = attempts
        self._breaker = _Breaker(failures, silence_s, clock)

    @property
    def is_async(self) -> bool:
        """Whether the client is asynchronous: then only ``acall`` reaches it."""
        return isinstance(self._client._client, AsyncDelegate)

    def __call__(self, request: Mapping[str, Any], /) -> SummaryReply:
        """Post the request and read the answer; ``SummaryFailed`` says why there is none."""
        if self.is_async:
            raise SummaryFailed("its client is asynchronous: await acall(request) instead")
        self._breaker.ask()
        try:
            reply = _reply_of(self._retrying(Retrying)(self._post, self._body(request)))
        except Exception as error:
            raise self._failed(error) from error
        self._breaker.passed()
        return reply

    async def acall(self, request: Mapping[str, Any], /) -> SummaryReply:
        """``__call__`` for coroutines; a synchronous client is asked in a thread."""
        if not self.is_async:
            from anyio.to_thread import run_sync  # the SDK's own dependency

            return await run_sync(self.__call__, request)
        self._breaker.ask()
        try:
            reply = _reply_of(await self._retrying(AsyncRetrying)(self._apost, self._body(request)))
        except Exception as error:
            raise self._failed(error) from error
        self._breaker.passed()
        return reply

    def _post(self, body: Mapping[str, Any]) -> Any:
        return self._client.post(_PATH, cast_to=object, body=body, options=self._options)

    async def _apost(self, body: Mapping[str, Any]) -> Any:
        posted: Awaitable[Any] = self._client.post(
            _PATH, cast_to=object, body=body, options=self._options
        )
        return await posted

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "timeout": self._timeout_s,
            "max_retries": 0,
        }  # the SDK would retry without end to it

    def _body(self, request: Mapping[str, Any]) -> dict[str, Any]:
        body = dict(request)
        if self._model is not None:
            body["model"] = self._model
        for limit in ("max_tokens", "max_completion_tokens"):
            if self._max_tokens is not None and isinstance(body.get(limit), int):
                body[limit] = min(body[limit], self._max_tokens)
        return body

    def _retrying(self, kind: Callable[..., Any]) -> Any:
        return kind(
            stop=stop_after_attempt(self._attempts) | stop_after_delay(self._timeout_s),
            wait=_wait,
            retry=retry_if_exception(_may_pass),
            reraise=True,
        )

    def _failed(self, error: Exception) -> SummaryFailed:
        self._breaker.failed()
        return SummaryFailed(f"{type(error).__name__}: {error}")


def unwrapped(client: Any) -> Any:
    """A client like the given one whose requests go through no engine."""
    bare = copy(client)
    for name in list(vars(bare)):
        if isinstance(getattr(type(client), name, None), cached_property):
            del vars(bare)[name]  # such as `chat`, which holds on to the client it was made for
    inner = getattr(client._client, "kvagent_inner", client._client)
    library = library_of(inner)
    if isinstance(inner, library.AsyncClient):
        vars(bare)["_client"] = _derived(_BareAsync, library.AsyncClient)(inner, None)
    else:
        vars(bare)["_client"] = _derived(_BareSync, library.Client)(inner, None)
    return bare


class _BareSync(SyncDelegate):
    """In front of a ``Client``, past any engine of its own."""

    def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        return self._bare_send(request, stream=stream, **options)


class _BareAsync(AsyncDelegate):
    """In front of an ``AsyncClient``, past any engine of its own."""

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        return await self._bare_send(request, stream=stream, **options)


@cache
def _derived(delegate: type, base: type) -> Any:
    return type(delegate.__name__, (delegate, base), {"__module__": __name__})


@dataclass(slots=True)
class _Breaker:
    """Lets nothing through for a while after so many failures in a row, then one to try."""

    failures: int
    silence_s: float
    clock: Callable[[], float]
    _in_a_row: int = 0
    _until: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def ask(self) -> None:
        """May a request be made? ``SummaryFailed`` if not."""
        with self._lock:
            left = self._until - self.clock()
            if left > 0:
                raise SummaryFailed(
                    f"{self._in_a_row} requests in a row failed; none is made for {left:.0f} s"
                )
            if self._in_a_row >= self.failures:
                self._until = self.clock() + self.silence_s  # for all but this one

    def passed(self) -> None:
        with self._lock:
            self._in_a_row, self._until = 0, 0.0

    def failed(self) -> None:
        with self._lock:
            self._in_a_row += 1
            if self._in_a_row >= self.failures:
                self._until = self.clock() + self.silence_s


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    from openai import APIConnectionError, APIStatusError

    if isinstance(error, APIStatusError):
        status = error.status_code
        if overflow_of(status, error.response.content) is not None:
            return False  # some servers say so with a 500
        return status in _PASSING or status >= 500
    return isinstance(error, APIConnectionError)


_grows = wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT_S)


def _wait(state: RetryCallState) -> float:
    """Seconds until the next attempt: what the server asks for, or a growing random time."""
    error = state.outcome.exception() if state.outcome is not None else None
    response = getattr(error, "response", None)
    asked = getattr(response, "headers", {}).get("retry-after", "")
    try:
        return min(max(float(asked), 0.0), _LONGEST_WAIT_S)
    except ValueError:
        return _grows(state)


def _reply_of(answer: Any) -> SummaryReply:
    """What a chat completion says; ``SummaryFailed`` if it is none."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise SummaryFailed("the answer is no chat completion")
    content = message.get("content")
    finish_reason = choice.get("finish_reason")
    return SummaryReply(
        content if isinstance(content, str) else "",
        finish_reason if isinstance(finish_reason, str) else None,
        message.get("tool_calls") or (),
        {key: answer[key] for key in ("usage", "timings", "model") if answer.get(key) is not None},
    )
