"""An agent, an engine and a server in a few lines: what goes out for what an agent sends?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvagent import Engine, Event, Policy
from kvagent.chat import ChatReply
from kvagent.flow import Answer, Call, Flow, drive

Message = dict[str, Any]
Dump = Callable[[Any], str]

NO_USAGE: Mapping[str, Any] = {}


def compact(value: Any) -> str:
    """JSON as the SDK writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def first_call(flow: Flow) -> Call:
    """The call with which a turn begins, if it asks for nothing before."""
    step = next(flow)
    assert isinstance(step, Call)
    return step


def say(role: str, content: Any, **rest: Any) -> Message:
    return {"role": role, "content": content, **rest}


def call(id: str, name: str = "read", arguments: Any = None, content: Any = None) -> Message:
    """An assistant message that calls one tool."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    function = {"name": name, "arguments": text}
    return say(
        "assistant", content, tool_calls=[{"id": id, "type": "function", "function": function}]
    )


def result(id: str, content: Any) -> Message:
    return say("tool", content, tool_call_id=id)


def tool(name: str, **properties: Any) -> Message:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": name, "description": f"The tool {name}.", "parameters": parameters}
    return {"type": "function", "function": function}


class Wire:
    """Sends requests through an engine and keeps what went out, and the events."""

    def __init__(self, engine: Engine | None = None, **policy: Any) -> None:
        self.events: list[Event] = []
        if engine is None:
            policy.setdefault("probe", False)
            engine = Engine(Policy(**policy), on_event=self.events.append)
        self.engine = engine
        self.bodies: list[dict[str, Any]] = []
        """What went out, request by request."""
        self.raws: list[bytes] = []

    def send(
        self,
        messages: Sequence[Message],
        reply: Message | None = None,
        *,
        tools: Sequence[Message] | None = None,
        status: int = 200,
        error: bytes = b"",
        usage: Mapping[str, Any] = NO_USAGE,
        session: str | None = None,
        dump: Dump = compact,
        settle: bool = True,
        **options: Any,
    ) -> list[Message]:
        """The messages that went out; ``reply`` is what the server answers."""
        body: dict[str, Any] = {"messages": list(messages), "model": "m", **options}
        if tools is not None:
            body["tools"] = list(tools)

        def answer(sent: Call) -> tuple[Answer, bytes]:
            return Answer(status, error), sent.body

        flow = self.engine.turn(dump(body).encode(), session=session)
        raw, settled = drive(flow, answer)
        self.raws.append(raw)
        self.bodies.append(json.loads(raw))
        if status < 400 and settle:
            messages_back = (dict(reply),) if reply is not None else ()
            counts = {"usage": dict(usage)} if usage else {}
            settled(ChatReply(messages_back, counts, complete=reply is not None), 0.1)
        sent: list[Message] = self.bodies[-1]["messages"]
        return sent

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


def kept(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a request only adds messages to the one before: its whole prefix stays."""
    head = ("tools", "model", "chat_template_kwargs")
    count = len(before["messages"])
    return bool(
        all(json.dumps(before.get(key)) == json.dumps(after.get(key)) for key in head)
        and json.dumps(before["messages"]) == json.dumps(after["messages"][:count])
    )
