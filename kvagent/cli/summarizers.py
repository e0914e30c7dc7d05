"""Who writes the narratives of a rewritten recording?"""

from __future__ import annotations

from typing import Any

import orjson

from kvagent.backends import Fetch
from kvagent.cli.connection import Connection, connect
from kvagent.cli.failure import Failure
from kvagent.summaries import Summarize


def summarizer_of(named: str, key: str | None) -> Summarize | None:
    """``none``, ``extractive`` (no model), or the URL of a server; ``Failure`` for anything else."""
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
    return _Served(connect(named, key))


class _Served:
    """A server that is asked for narratives."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __call__(self, request: dict[str, Any]) -> Any:
        from kvagent.compaction import SummaryFailed, SummaryReply

        answer = self._connection.fetch(Fetch("/chat/completions", "api", request))
        if answer.status != 200:
            raise SummaryFailed(f"the server answered with status {answer.status}")
        try:
            reply = orjson.loads(answer.body)
            choice = reply["choices"][0]
            message = choice["message"]
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise SummaryFailed("the server's answer is no chat completion") from error
        return SummaryReply(
            message.get("content") or "",
            choice.get("finish_reason"),
            message.get("tool_calls") or (),
            {key: reply[key] for key in ("usage", "timings") if reply.get(key)},
        )
