"""What does a scripted agent of LangChain do in its turns, and what did the server compute for it?

The agent is one of ``create_agent`` with a checkpointer and the demo's tools. A model of 135M
parameters cannot be relied upon to choose them: it writes some words, is stopped where it begins a
call, and the script adds the calls. What is measured follows from what is sent alone.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import dynamic_prompt
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import tool_call
from langchain_core.tools import BaseTool, StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from openai import APIStatusError, DefaultHttpxClient

from kvagent.backends import overflow_of
from kvagent.cli.demo.agent import MAX_TOKENS, STOP, VARIED
from kvagent.cli.demo.habits import Clock
from kvagent.cli.demo.script import SYSTEM, Call
from kvagent.cli.demo.server import MODEL_ALIAS
from kvagent.cli.demo.tools import DEFINITIONS, Toolbox
from kvagent_langchain import wire


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user says, and the calls that the agent makes, model call by model call, before it
    answers."""

    user: str
    calls: tuple[tuple[Call, ...], ...]


def script(root: Path, turns: int, *, lines: int) -> list[Turn]:
    """Searches, listings and readings of ``lines`` lines in the package at ``root``.

    Some 2.5 model calls a turn, the answer included.
    """
    files = sorted(path for path in (root / "kvagent").rglob("*.py") if path.stat().st_size > 1_500)
    names = [path.relative_to(root).as_posix() for path in files]
    words = ["def ", "class ", "raise ", "return None", "import re", "frozenset", "dataclass"]
    played: list[Turn] = []
    for number in range(turns):
        name = names[number * 7 % len(names)]
        folder = str(Path(name).parent)
        read = Call("read_file", {"path": name, "first": 1, "last": lines})
        search = Call("grep", {"pattern": words[number % len(words)], "folder": "kvagent"})
        listing = Call("list_files", {"folder": folder})
        calls: tuple[tuple[Call, ...], ...]
        if number % 4 == 0:
            calls = ((listing,), (read,))
        elif number % 4 == 1:
            calls = ((read,),)
        elif number % 4 == 2:
            calls = ((search, listing), (read,))
        else:
            calls = ((search,),)
        played.append(Turn(f"What does {name} do? The port stays {8_000 + number}.", calls))
    return played


class Scripted(AgentMiddleware[Any, Any, Any]):
    """Adds the script's calls to the model's replies. It stands innermost."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        super().__init__()
        self._steps = iter([calls for turn in turns for calls in (*turn.calls, ())])
        self._number = 0

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        response = handler(request)  # a refused request is no step
        reply = response.result[0]
        assert isinstance(reply, AIMessage)
        self._number += 1
        calls = [
            tool_call(name=call.tool, args=call.arguments, id=f"call_{self._number}_{index}")
            for index, call in enumerate(next(self._steps))
        ]
        return ModelResponse([reply.model_copy(update={"tool_calls": calls})])


def clocked() -> AgentMiddleware[Any, Any, Any]:
    """A dynamic system prompt with a clock, which has moved on at each model call."""
    clock = Clock()

    @dynamic_prompt
    def prompt(_: ModelRequest[Any]) -> str:
        return f"Current time: {clock():%Y-%m-%d %H:%M:%S}\n{SYSTEM}"

    return prompt


def tools(toolbox: Toolbox) -> list[BaseTool]:
    """The demo's tools as LangChain has them."""

    def bound(name: str) -> Callable[..., str]:
        return lambda **arguments: toolbox.call(name, arguments)

    functions = [definition["function"] for definition in DEFINITIONS]
    return [
        StructuredTool.from_function(
            bound(function["name"]),
            name=function["name"],
            description=function["description"],
            args_schema=function["parameters"],
        )
        for function in functions
    ]


@dataclass(slots=True)
class Counts:
    """What the server said of each chat request, in the order of its answers."""

    prompt_tokens: list[int] = field(default_factory=list)
    cached_tokens: list[int] = field(default_factory=list)
    refused: int = 0

    def client(self) -> Any:
        """An HTTP client whose answers are counted."""
        return DefaultHttpxClient(event_hooks={"response": [self._count]}, timeout=600)

    def _count(self, response: Any) -> None:
        if not response.request.url.path.endswith("/chat/completions"):
            return
        response.read()
        if response.status_code != 200:
            self.refused += 1
            return
        usage = response.json()["usage"]
        self.prompt_tokens.append(usage["prompt_tokens"])
        self.cached_tokens.append(usage["prompt_tokens_details"]["cached_tokens"])

    @property
    def prefilled_tokens(self) -> int:
        """Prompt tokens that the server had to compute, for whatever it was asked."""
        return sum(self.prompt_tokens) - sum(self.cached_tokens)

    @property
    def breaks(self) -> int:
        """Requests for which the server had to go back behind the prompt before."""
        pairs = zip(self.prompt_tokens, self.cached_tokens[1:], strict=False)
        return sum(cached < before for before, cached in pairs)


@dataclass(frozen=True, slots=True)
class Played:
    """One run: what the state holds in the end, and how far it came."""

    messages: list[BaseMessage]
    refused_in_turn: int | None
    """From 1; what comes behind it was not played."""


class Tokenizer:
    """Counts as the server does, by asking it."""

    def __init__(self, base_url: str) -> None:
        self._address = base_url.removesuffix("/v1")
        self._known: dict[str, int] = {}

    def metric(self, name: str) -> int:
        """One of the server's own counters since it was started."""
        with urllib.request.urlopen(f"{self._address}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return next(int(float(line.split()[1])) for line in lines if line.startswith(f"{name} "))

    def messages(self, messages: Iterable[Any]) -> int:
        """Tokens of messages, calls included, as a token counter of LangChain."""
        return sum(map(self._message, messages))

    def prompt(self, messages: Sequence[BaseMessage], tools: Sequence[BaseTool]) -> int:
        """Tokens of a whole prompt, through the chat template."""
        body = {"messages": list(map(wire.message, messages)), "tools": wire.tools(tools)}
        return self._text(self._asked("apply-template", body)["prompt"])

    def _message(self, message: BaseMessage) -> int:
        calls = [
            f'\n<tool_call>\n{{"name": "{call["name"]}", "arguments": '
            f"{json.dumps(call['args'], ensure_ascii=False)}}}\n</tool_call>"
            for call in getattr(message, "tool_calls", ())
        ]
        return self._text(f"<|im_start|>tool\n{message.text}{''.join(calls)}<|im_end|>\n")

    def _text(self, text: str) -> int:
        if text not in self._known:
            body = {"content": text, "add_special": True, "parse_special": True}
            self._known[text] = len(self._asked("tokenize", body)["tokens"])
        return self._known[text]

    def _asked(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{self._address}/{path}",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def settings(base_url: str, counts: Counts, **more: Any) -> dict[str, Any]:
    """Of a ChatOpenAI whose answers are counted."""
    return {
        "model": MODEL_ALIAS,
        "base_url": base_url,
        "api_key": "none",
        "http_client": counts.client(),
        "temperature": 0,
        "max_retries": 0,
        **more,
    }


def of_the_agent() -> dict[str, Any]:
    """What the agent's model is set to beyond that."""
    return {"max_tokens": MAX_TOKENS, "stop": [STOP], "extra_body": VARIED}


def play(
    model: ChatOpenAI,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]],
    toolbox: Toolbox,
    turns: Sequence[Turn],
    on_turn: Callable[[int], object],
    *,
    clock: bool,
) -> Played:
    """The turns in one thread, up to the first that the server refuses.

    With a clock the system prompt says what time it is, to the second.
    """
    agent = create_agent(
        model,
        tools(toolbox),
        system_prompt=SYSTEM,
        middleware=[*([clocked()] if clock else []), *middleware, Scripted(turns)],
        checkpointer=InMemorySaver(),
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    refused: int | None = None
    for number, turn in enumerate(turns, 1):
        on_turn(number)
        try:
            agent.invoke({"messages": [{"role": "user", "content": turn.user}]}, thread)
        except APIStatusError as error:
            if overflow_of(error.status_code, error.response.content) is None:
                raise
            refused = number
            break
    return Played(agent.get_state(thread).values["messages"], refused)
