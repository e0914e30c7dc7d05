"""What does an agent of LangChain make a real llama.cpp compute under kvagent, and under LangChain's own policies?

An agent of ``create_agent`` with a checkpointer and real tools plays 20 turns in one thread: the user
says something, the agent calls tools and answers, 50 model calls in all. It has no bad habits, so
what is computed twice is the policy's doing. Each policy has a fresh server with one slot. The
figures are the server's own: ``prefilled`` is what it computed for all that it was asked, summaries
included. The floor is what the agent adds (the last prompt as the state has it, less what the model
generated), each token computed once, as in a window without end; a clock adds nothing to it.

``long`` adds up to more than three windows: each policy must remove something, or is refused.
``short`` fits, so that none has anything to do; there kvagent stands beside no middleware alone.
LangChain's policies act at 0.8 of the window, count with the server's tokenizer, and are set so:

    SummarizationMiddleware   keeps a tenth of the window, as deepagents has it; the same model
                              writes at most 256 tokens; it replaces the messages in the state
    ContextEditingMiddleware  one ClearToolUsesEdit, else its defaults
    trim_messages             as its documentation has it for chat models, within wrap_model_call

kvagent has its defaults: it asks the server for the window, and no model for summaries. It can come
out below the floor, for it shortens long results before they are ever sent; ``evict=None`` forbids
that. ``chat_openai`` is the same engine below the agent, in the HTTP client.

    python benchmarks/langchain_policies.py [--tiny] [--clock] [--turns N] [--threads N] [--json OUT]

``--clock`` gives the agent the habit that costs most: a system prompt that says what time it is.
``--tiny`` takes a model of one layer with random weights and the same tokenizer: what is cached
depends on tokens alone. But text that a model spells in its own way is tokenized in another when it
comes back, and random text nearly always is: some tokens a reply, whatever the policy. JSON holds
the figures of ``long``, and those of ``short`` under that name.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_agent import Counts, Played, Tokenizer, Turn, of_the_agent, play, script, settings
from langchain_agent import tools as tools_of
from langchain_core.messages import AIMessage, SystemMessage, trim_messages
from langchain_openai import ChatOpenAI
from rich import box
from rich.console import Console
from rich.table import Table

from kvagent import Policy
from kvagent.cli.demo.script import SYSTEM
from kvagent.cli.demo.server import CHAT_TEMPLATE, LlamaCpp, default_model
from kvagent.cli.demo.tools import Toolbox, find_root
from kvagent_langchain.chat_model import chat_openai
from kvagent_langchain.middleware import KVAgentMiddleware

sys.path.insert(0, str(Path(__file__).parents[1]))

TURNS = 20
ACT_AT = 0.8
"""Of the window, in tokens of messages: system message and tools are some 300 more."""
SUMMARY_TOKENS = 256

Middleware = Sequence[AgentMiddleware[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A window in tokens, how many lines of each file the agent reads in it, and what is measured."""

    window: int
    lines: int
    policies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Host:
    """A running server, and what it is asked."""

    base_url: str
    window: int
    counts: Counts
    tokens: Tokenizer

    @property
    def limit(self) -> int:
        """Where LangChain's policies act, in tokens."""
        return int(ACT_AT * self.window)

    def agent(self) -> dict[str, Any]:
        """The options of the agent's model."""
        return settings(self.base_url, self.counts, **of_the_agent())

    def summarizer(self) -> ChatOpenAI:
        """The same model for summaries."""
        return ChatOpenAI(**settings(self.base_url, self.counts, max_tokens=SUMMARY_TOKENS))


class Trimming(AgentMiddleware[Any, Any, Any]):
    """Sends the newest messages that ``trim_messages`` leaves; the state keeps all."""

    def __init__(self, limit: int, count: Callable[..., int]) -> None:
        super().__init__()
        self._limit = limit
        self._count = count

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        messages: list[Any] = trim_messages(
            request.messages,
            max_tokens=self._limit,
            token_counter=self._count,
            strategy="last",
            start_on="human",
            end_on=("human", "tool"),
        )
        return handler(request.override(messages=messages))


def summarization(host: Host) -> Middleware:
    middleware = SummarizationMiddleware(
        host.summarizer(),
        trigger=("tokens", host.limit),
        keep=("tokens", host.window // 10),
        token_counter=host.tokens.messages,
    )
    return [middleware]


def context_editing(host: Host) -> Middleware:
    edits = [ClearToolUsesEdit(trigger=host.limit)]
    return [ContextEditingMiddleware(edits=edits, token_counter=host.tokens.messages)]


def trimming(host: Host) -> Middleware:
    return [Trimming(host.limit, host.tokens.messages)]


def none(_: Host) -> Middleware:
    return []


def kvagent(_: Host) -> Middleware:
    return [KVAgentMiddleware()]


def kvagent_unshortened(_: Host) -> Middleware:
    return [KVAgentMiddleware(Policy(evict=None))]


# Their names, and what stands around the agent's model.
POLICIES: dict[str, tuple[str, Callable[[Host], Middleware]]] = {
    "no_middleware": ("no middleware", none),
    "summarization": ("SummarizationMiddleware", summarization),
    "context_editing": ("ContextEditingMiddleware", context_editing),
    "trim_messages": ("trim_messages", trimming),
    "kvagent": ("KVAgentMiddleware", kvagent),
    "kvagent_unshortened": ("  with evict=None", kvagent_unshortened),
    "chat_openai": ("chat_openai", none),
}
SETTINGS = {
    "long": Setting(4_096, 60, tuple(POLICIES)),
    "short": Setting(8_192, 12, ("no_middleware", "kvagent")),
}


class Bench:
    """Where all runs are made: one model, and files that stay as they are."""

    def __init__(self, model: Path, root: Path, turns: int, threads: int, *, clock: bool) -> None:
        self._model = model
        self._toolbox = Toolbox(root)
        self._turns = turns
        self._threads = threads
        self._clock = clock

    def report(self, name: str) -> dict[str, Any]:
        """``{"floor_tokens": N, "kvagent": {…}, …}``; the floor is that of kvagent's own run."""
        setting = SETTINGS[name]
        turns = script(self._toolbox.root, self._turns, lines=setting.lines)
        found = {}
        for policy in setting.policies:
            title = f"{name}: {POLICIES[policy][0]}"
            found[policy] = self._figures(policy, setting.window, turns, title)
        floor = found["kvagent"]["floor_tokens"]
        for figures in found.values():
            complete = figures["refused_in_turn"] is None
            figures["ratio"] = round(figures["prefilled_tokens"] / floor, 3) if complete else None
        head = {"floor_tokens": floor, "window": setting.window, "turns": len(turns)}
        return {**head, **found}

    def _figures(
        self, policy: str, window: int, turns: Sequence[Turn], title: str
    ) -> dict[str, Any]:
        server = LlamaCpp(self._model, CHAT_TEMPLATE, n_ctx=window, threads=self._threads)
        with server:
            host = Host(server.base_url, window, Counts(), Tokenizer(server.base_url))
            wanted = chat_openai if policy == "chat_openai" else ChatOpenAI
            played = play(
                wanted(**host.agent()),
                POLICIES[policy][1](host),
                self._toolbox,
                turns,
                lambda turn: _progress(f"{title}, turn {turn}"),
                clock=self._clock,
            )
            prefilled = host.tokens.metric("llamacpp:prompt_tokens_total")
            floor = _floor(host.tokens, played, self._toolbox)
        counts = host.counts
        if prefilled != counts.prefilled_tokens:
            raise SystemExit(
                f"{policy}: the server counts {prefilled} prefilled tokens in all, and "
                f"{counts.prefilled_tokens} in its answers"
            )
        return {
            "prefilled_tokens": prefilled,
            "floor_tokens": floor,
            "requests": len(counts.prompt_tokens),
            "breaks": counts.breaks,
            "longest_prompt_tokens": max(counts.prompt_tokens),
            "refused_requests": counts.refused,
            "refused_in_turn": played.refused_in_turn,
        }


def _floor(tokens: Tokenizer, played: Played, toolbox: Toolbox) -> int:
    """Tokens of the last prompt as the agent's state has it, less what the model generated."""
    sent = played.messages
    if isinstance(sent[-1], AIMessage):
        sent = sent[:-1]
    usages = [message.usage_metadata for message in sent if isinstance(message, AIMessage)]
    generated = sum(usage["output_tokens"] for usage in usages if usage is not None)
    return tokens.prompt([SystemMessage(SYSTEM), *sent], tools_of(toolbox)) - generated


def shown(report: dict[str, Any], name: str) -> Table:
    table = Table(
        title=f"{name}: a window of {report['window']:,} tokens, {report['turns']} turns, "
        f"floor {report['floor_tokens']:,}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("policy", no_wrap=True)
    for head in ("requests", "prefilled", "× floor", "breaks", "peak"):
        table.add_column(head, justify="right", no_wrap=True)
    for policy in SETTINGS[name].policies:
        one = report[policy]
        refused = one["refused_in_turn"]
        table.add_row(
            POLICIES[policy][0],
            f"{one['requests']}",
            f"{one['prefilled_tokens']:,}",
            f"{one['ratio']:.2f}" if refused is None else f"until {refused}",
            f"{one['breaks']}",
            f"{one['longest_prompt_tokens']:,}",
        )
    return table


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--clock", action="store_true")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "read"  # a copy: all runs read the same, whoever edits the files
        shutil.copytree(
            find_root() / "kvagent", root / "kvagent", ignore=shutil.ignore_patterns("__pycache__")
        )
        model = default_model()
        if options.tiny:
            from tests.tiny_model import SLIM, write

            model = write(Path(folder) / "tiny.gguf", model, SLIM)
        bench = Bench(model, root, options.turns, options.threads, clock=options.clock)
        reports = {name: bench.report(name) for name in SETTINGS}
    _progress("")
    console = Console(width=80)
    for name, report in reports.items():
        console.print(shown(report, name))
    console.print(
        "until N: the server refused the agent's prompt in turn N, and the run ends there"
    )
    if options.json:
        whole = {**reports["long"], "short": reports["short"]}
        options.json.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
