"""Does what a server was sent only grow, and where it does not, was it told why?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kvagent import Edited, Event, PrefixBroken

from .task_server import Reply, TaskServer, reply, task_server

# Edits within what was sent; those of other stages are made on the way.
_WITHIN = {"clear", "compact"}


class Record:
    """A server, and the events of the engines in front of it, each with its request."""

    def __init__(self, server: TaskServer) -> None:
        self.server = server
        self.events: list[tuple[int, Event]] = []

    @property
    def base_url(self) -> str:
        return self.server.base_url

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.server.requests

    def on_event(self, event: Event) -> None:
        """To be given to the middleware."""
        self.events.append((len(self.server.bodies) - 1, event))

    @property
    def breaks(self) -> list[PrefixBroken]:
        return [event for _, event in self.events if isinstance(event, PrefixBroken)]

    def edited(self, stage: str) -> int:
        """How many edits a stage made."""
        return sum(isinstance(e, Edited) and e.stage == stage for _, e in self.events)

    @property
    def cuts(self) -> list[int]:
        """The requests that do not begin as the one before them in their conversation."""
        newest: dict[tuple[bool, str], list[str]] = {}
        found = []
        for at, request in enumerate(self.requests):
            before = newest.get(_conversation(request), [])
            newest[_conversation(request)] = prompt = parts(request)
            if prompt[: len(before)] != before:
                found.append(at)
        return found

    @property
    def told(self) -> set[int]:
        """The requests that break a prefix according to an event."""
        return {
            at
            for at, event in self.events
            if isinstance(event, PrefixBroken)
            or (isinstance(event, Edited) and event.stage in _WITHIN)
        }

    @property
    def prefilled(self) -> int:
        """Tokens, as the server counted them."""
        return sum(self.server.prefilled)

    def holds(self) -> bool:
        """Whether each request goes on from one before it, or is known not to."""
        return set(self.cuts) <= self.told


@contextmanager
def recorded(window: int | None = None, answer: Reply = reply) -> Iterator[Record]:
    with task_server(window, answer) as server:
        yield Record(server)


def parts(request: Mapping[str, Any]) -> list[str]:
    """What the prompt is made of, in a chat template's order."""
    return [json.dumps(part) for part in (request.get("tools"), *request["messages"])]


def _conversation(request: Mapping[str, Any]) -> tuple[bool, str]:
    """By what the tests' conversations are told apart; those without tools are others' own calls."""
    first = next(m["content"] for m in request["messages"] if m["role"] == "user")
    text = first if isinstance(first, str) else "".join(part["text"] for part in first)
    return bool(request.get("tools")), text
