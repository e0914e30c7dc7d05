"""Who writes the narratives of a rewritten recording?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from kvagent.backends import Fetch
from kvagent.cli.connection import Connection, connect
from kvagent.cli.failure import Failure
from kvagent.summaries import Summarize


def summarizer_of(named: str, key: str | None, say: Callable[[str], None]) -> Summarize | None:
    """``none``, ``extractive`` (no model), or the URL of a server; ``Failure`` for anything else.

    ``say`` is told why a server gave no narrative, once for each reason.
    """
    if named == "none":
        return None
    if named == "extractive":
        from kvagent.compaction.extractive import extractive

        return extractive
    if not named.startswith(("http://", "https://")):
        raise Failure(
            f"--summarizer {named}: write none, extractive, or a server's URL such as "
            "http://127.0.0.1:8000/v1"
        )
    return _Served(connect(named, key), say)


class _Served:
    """A server that is asked for narratives, by the model that it has."""

    def __init__(self, connection: Connection, say: Callable[[str], None]) -> None:
        self._connection = connection
        self._say = say
        self._said: set[str] = set()
        listed = orjson.loads(connection.fetch(Fetch("/models", "api")).body or b"{}")
        self._models = [model["id"] for model in listed.get("data", ()) if model.get("id")]

    def __call__(self, request: dict[str, Any]) -> Any:
        from kvagent.compaction import SummaryFailed, SummaryReply

        if self._models and request.get("model") not in self._models:
            request = {**request, "model": self._models[0]}
        answer = self._connection.fetch(Fetch("/chat/completions", "api", request))
        if answer.status != 200:
            raise SummaryFailed(self._told(f"it answers with status {answer.status}", answer.body))
        try:
            reply = orjson.loads(answer.body)
            choice = reply["choices"][0]
            content = choice["message"].get("content")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            told = self._told("its answer is no chat completion", answer.body)
            raise SummaryFailed(told) from error
        return SummaryReply(
            content if isinstance(content, str) else "",
            choice.get("finish_reason"),
            choice["message"].get("tool_calls") or (),
            {key: reply[key] for key in ("usage", "timings") if reply.get(key)},
        )

    def _told(self, reason: str, body: bytes) -> str:
        if reason not in self._said:
            self._said.add(reason)
            more = " ".join(body[:200].decode(errors="replace").split())
            self._say(f"the summarizer fails, and facts stand alone: {reason}: {more or 'nothing'}")
        return reason
