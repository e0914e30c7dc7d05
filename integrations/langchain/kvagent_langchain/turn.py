"""What happens to one model call of an agent, and to the response on its way back?

The calling itself is the middleware's. What the engine does not change stays the very object it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from kvagent.backends import PROMPT_KEYS
from kvagent.fingerprint import identity
from kvagent.flow import Answer, Call, Flow, Settle
from kvagent.limits import REPLY_KEYS
from kvagent_langchain import view, wire
from kvagent_langchain.memory import Memory
from kvagent_langchain.refusal import refusal_of

logger = logging.getLogger("kvagent")

Response = ModelResponse[Any]

# Of what a request says beside messages and tools, the engine is told what bears on the prompt.
_TOLD = PROMPT_KEYS | frozenset(REPLY_KEYS)


class Turn:
    """One model call as the engine sees it."""

    def __init__(
        self, request: ModelRequest[Any], memory: Callable[[Sequence[bytes]], Memory]
    ) -> None:
        """``memory`` gives the memory of whoever has sent these messages."""
        self._request = request
        self._as_generated = bool(getattr(request.model, "sends_as_generated", False))
        system = () if request.system_message is None else (request.system_message,)
        self._before = [(self._wire(m), m) for m in (*system, *request.messages)]
        forms = [identity(form) for form, _ in self._before]
        self._history = forms[len(system) :]
        self._tools = wire.tools(request.tools)
        self._told = _settings(request)
        self.memory = memory(self._history)
        self.memory.ready_for(self._told.get("model", ""))
        rest = {**self._told, **({"tools": self._tools} if self._tools else {})}
        self._body = b'{"messages":[%b]%b' % (
            b",".join(forms),
            b"," + orjson.dumps(rest)[1:] if rest else b"}",
        )
        self._response: Response | None = None
        self.error: Exception | None = None
        """What the model raised last, if it did."""

    def flow(self) -> Flow:
        """The engine's part."""
        return self.memory.engine.turn(self._body)

    def outgoing(self, call: Call) -> ModelRequest[Any]:
        """The request to hand on: the agent's own, unless something is to change."""
        self.error = None
        if call.body is self._body and not call.headers:
            return self._request
        wanted = orjson.loads(call.body)
        messages: list[Any] = view.messages(
            wanted["messages"], self._before, as_generated=self._as_generated
        )
        system = None
        if self._request.system_message is not None and isinstance(messages[0], SystemMessage):
            system, *messages = messages
        return self._request.override(
            system_message=system,
            messages=messages,
            tools=self._tools_for(wanted.get("tools") or ()),
            model_settings=self._settings_for(wanted, call.headers),
        )

    def answered(self, response: Response) -> tuple[Answer, Response | None]:
        """What the engine is told of a response."""
        self._response = response
        return Answer(200), response

    def refused(self, error: Exception) -> Answer | None:
        """What the engine is told of a server that refused; None for any other error."""
        self.error = error
        return refusal_of(error)

    @property
    def history(self) -> Iterator[bytes]:
        """The messages, and the reply as it will come back."""
        yield from self._history
        message = None if self._response is None else _reply_in(self._response)
        if message is not None:
            yield identity(self._wire(message))

    def settled(self, response: Response | None, settle: Settle) -> Flow | None:
        """Keep the reply; a flow goes on from one that was for kvagent."""
        message = None if response is None else _reply_in(response)
        if message is None:
            return None
        try:
            return settle(wire.reply(message, as_generated=self._as_generated), None)
        except Exception:
            logger.exception("kvagent failed on a reply; the agent has it unchanged")
            return None

    def outcome(self, response: Response | None) -> Response:
        """The response for the agent; raises what the model raised."""
        if response is None:
            assert self.error is not None
            raise self.error
        return response

    def rescued(self, error: Exception) -> Response | None:
        """After an error of kvagent's own: the response, or None if there is none yet."""
        logger.error("kvagent failed on a request; nothing of it is changed", exc_info=error)
        return self._response

    def _wire(self, message: BaseMessage) -> dict[str, Any]:
        form = wire.message(message)
        if self._as_generated and isinstance(message, AIMessage):
            return wire.as_generated(message, form)
        return form

    def _tools_for(self, wanted: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The agent's own tools in the order that is wanted, those in another form as JSON."""
        own = {
            identity(form): tool
            for form, tool in zip(self._tools, self._request.tools, strict=True)
        }
        return [own.get(identity(tool), tool) for tool in wanted]

    def _settings_for(
        self, wanted: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """The model's settings with what the engine adds beside messages and tools."""
        settings = dict(self._request.model_settings)
        added = {
            key: value
            for key, value in wanted.items()
            if key not in ("messages", "tools") and self._told.get(key) != value
        }
        settings.update({key: added.pop(key) for key in REPLY_KEYS if key in added})
        if added:
            own = getattr(self._request.model, "extra_body", None)
            settings["extra_body"] = {**(own or {}), **settings.get("extra_body", {}), **added}
        if headers:
            settings["extra_headers"] = {**headers, **settings.get("extra_headers", {})}
        return settings


def _settings(request: ModelRequest[Any]) -> dict[str, Any]:
    """What the request says beside messages and tools, as far as it bears on the prompt."""
    model, settings = request.model, request.model_settings
    said = {key: getattr(model, key, None) for key in _TOLD}
    said["model"] = getattr(model, "model_name", None) or getattr(model, "model", None)
    for extra in (getattr(model, "extra_body", None), settings, settings.get("extra_body")):
        if isinstance(extra, Mapping):
            said.update({key: value for key, value in extra.items() if key in _TOLD})
    return {key: value for key, value in said.items() if _is_json(value)}


def _is_json(value: Any) -> bool:
    if value is None:
        return False
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _reply_in(response: Response) -> AIMessage | None:
    """The reply; behind it may stand the result of a tool that gave a structured answer."""
    return next((m for m in response.result if isinstance(m, AIMessage)), None)
