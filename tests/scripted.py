"""What goes out, and what does the caller get, if the server answers so?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvagent import Engine, Event, Policy
from kvagent.chat import ChatReply, shown
from kvagent.flow import Answer, Call, drive
from kvagent.tokens import count_tokens
from tests.wire import Dump, Message, compact, say

MODEL = "m"


@dataclass(frozen=True)
class Served:
    """What a server answers: a reply with its counts, or a refusal."""

    reply: Message | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    error: bytes = b""
    stream_error: Any = None
    """An error event in the middle of a stream."""

    @property
    def chat_reply(self) -> ChatReply:
        messages = () if self.reply is None else (dict(self.reply),)
        counts = {"usage": dict(self.usage)} if self.usage else {}
        complete = self.reply is not None and self.stream_error is None
        return ChatReply(messages, counts, complete=complete, error=self.stream_error)


Script = Callable[[dict[str, Any]], Served]


def refused(message: str, status: int = 400, **more: Any) -> Served:
    error = {"error": {"code": status, "message": message, **more}}
    return Served(status=status, error=json.dumps(error).encode())


def tokens_of(body: Mapping[str, Any]) -> int:
    """What a prompt has by the general tokenizer, about."""
    tools = json.dumps(body.get("tools") or "")
    return sum(4 + count_tokens(shown(message)) for message in body["messages"]) + len(tools) // 4


class Scripted:
    """Sends requests through an engine to a server that answers as it is told."""

    def __init__(self, engine: Engine | None = None, **policy: Any) -> None:
        self.events: list[Event] = []
        if engine is None:
            policy.setdefault("probe", False)
            engine = Engine(Policy(**policy), on_event=self.events.append)
        self.engine = engine
        self.bodies: list[dict[str, Any]] = []
        """All that went out."""
        self.raws: list[bytes] = []
        self.withheld: list[frozenset[str]] = []

    def send(
        self,
        messages: Sequence[Message],
        server: Script | Served | Message | None = None,
        *,
        session: str | None = None,
        dump: Dump = compact,
        **options: Any,
    ) -> Served:
        """What the caller gets."""
        raw = dump({"messages": list(messages), "model": MODEL, **options}).encode()
        if server is None:
            server = say("assistant", "Good.")
        answers = [server] if callable(server) or isinstance(server, Served) else [Served(server)]

        def answer(call: Call) -> tuple[Answer, Served]:
            self.raws.append(call.body)
            self.bodies.append(json.loads(call.body))
            self.withheld.append(call.withheld)
            served = answers[0](self.bodies[-1]) if callable(answers[0]) else answers[0]
            assert isinstance(served, Served)
            return Answer(served.status, served.error), served

        served, settle = drive(self.engine.turn(raw, session=session), answer)
        while served.status < 400 and (more := settle(served.chat_reply, 0.1)) is not None:
            served, settle = drive(more, answer)
        return served

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def last(self) -> list[Message]:
        messages: list[Message] = self.bodies[-1]["messages"]
        return messages
