"""What do frameworks' agents have in common? A model that calls tools, and a clock in their head."""

from __future__ import annotations

from itertools import count, pairwise
from typing import Any

import pytest

from kvagent import Engine, Policy
from kvagent.events import Event, PrefixBroken, TurnFinished

# Tests are no package, so there is no absolute name for this.
from ..null_server import Answer, NullServer, Seen, completion, events, sse  # noqa: TID252


class Reading:
    """Two questions to an agent that reads some files for each, on a server that is watched."""

    questions = ("Read some files.", "Read some more.")
    files = 6
    last_word = "I have read 6 files."

    def __init__(self, server: NullServer) -> None:
        self.url = f"{server.url}/v1"
        self.happened: list[Event] = []
        self.engine = Engine(Policy(probe=False), on_event=self.happened.append)
        self._server = server
        self._ticks = count()
        server.respond = self._respond

    def instructions(self) -> str:
        """The system prompt of many agents: with the time to the second."""
        return f"Read.\nCurrent time: 2026-03-01 09:00:{next(self._ticks):02d}\nBe brief."

    def read_file(self, path: str) -> str:
        """Read a file."""
        return f"# {path}\n" + "line of code\n" * 5

    def _respond(self, seen: Seen) -> Answer:
        done = sum(message["role"] == "tool" for message in seen.messages)
        asked = sum(message["role"] == "user" for message in seen.messages)
        message: dict[str, Any] = {"content": f"I have read {done} files."}
        if done < asked * self.files // len(self.questions):
            function = {"name": "read_file", "arguments": arguments(done)}
            call = {"id": f"call_{done}", "type": "function", "function": function}
            message = {"content": None, "tool_calls": [call]}
        return sse(events(message)) if seen.json.get("stream") else completion(message)

    def check(self) -> None:
        """Every request begins with the one before it, and the model's own words come back."""
        sent = self._server.chats
        assert len(sent) == self.files + len(self.questions)
        for before, after in pairwise(sent):
            assert after.messages[: len(before.messages)] == before.messages
            assert after.json["tools"] == before.json["tools"]
        calls = [
            message["tool_calls"][0]["function"]["arguments"]
            for message in sent[-1].messages
            if message.get("tool_calls")
        ]
        assert calls == [arguments(number) for number in range(self.files)]
        assert not [event for event in self.happened if isinstance(event, PrefixBroken)]
        turns = [event for event in self.happened if isinstance(event, TurnFinished)]
        assert [turn.turn for turn in turns] == list(range(1, len(sent) + 1))
        assert len({turn.conversation for turn in turns}) == 1


def arguments(number: int) -> str:
    """As a model may write them, and no serialiser would."""
    return f'{{"path":  "src/ä{number}.py"}}'


@pytest.fixture
def reading(server: NullServer) -> Reading:
    return Reading(server)
