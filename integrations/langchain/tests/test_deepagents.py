"""Do deepagents' agents keep their prompts, beside what deepagents itself does to them?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("deepagents", reason="deepagents is not installed (group deepagents)")

from deepagents import HarnessProfile, create_deep_agent, register_harness_profile
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from kvagent import Policy
from kvagent_langchain import KVAgentMiddleware, chat_openai

from . import task_server
from .record import Record, parts, recorded
from .task_agent import CONFIG, model, read, task

LARGE = Policy(window=500_000)
# deepagents' tools alone take some 3,000.
WINDOW = 9_000


def kv(record: Record, policy: Policy = LARGE) -> KVAgentMiddleware:
    return KVAgentMiddleware(policy, on_event=record.on_event)


def made(record: Record, *middleware: Any, **options: Any) -> Any:
    options = {"model": model(record.base_url), "tools": [read], **options}
    return create_deep_agent(
        system_prompt="You do tasks.",
        middleware=middleware,
        checkpointer=InMemorySaver(),
        **options,
    )


def worked(record: Record, *middleware: Any, tasks: int = 4, **options: Any) -> Any:
    """The state of an agent once it has done its tasks."""
    working = made(record, *middleware, **options)
    for number in range(tasks):
        working.invoke(task(number), CONFIG)
    return working.get_state(CONFIG).values


def tokens(request: Mapping[str, Any]) -> int:
    """As the server counts."""
    prompt = [request["tools"], request["messages"]]
    return len(json.dumps(prompt, ensure_ascii=False).encode()) // 4


def is_whole(state: Mapping[str, Any], tasks: int = 4) -> bool:
    results = [m.text for m in state["messages"] if m.type == "tool"]
    return len(results) == 5 * tasks and all("line 59" in text for text in results)


@contextmanager
def profile(**options: Any) -> Iterator[str]:
    """A harness profile for the one model of this block, and its name."""
    profile.used = getattr(profile, "used", 0) + 1  # type: ignore[attr-defined]
    name = f"task-{profile.used}"  # type: ignore[attr-defined]
    register_harness_profile(f"openai:{name}", HarnessProfile(**options))
    yield name


# -- one agent


def test_the_prompt_only_grows() -> None:
    with recorded() as record:
        state = worked(record, kv(record))
        assert record.cuts == []
        assert record.breaks == []
        assert record.prefilled <= 1.02 * tokens(record.requests[-1])
        assert is_whole(state)
        assert len(state["kvagent"]) == len(record.requests)


async def test_with_coroutines_and_streams_in_a_small_window() -> None:
    with recorded() as record:
        working = made(record, kv(record, Policy(window=WINDOW)))
        for number in range(6):
            if number % 2:
                state = await working.ainvoke(task(number), CONFIG)
                assert set(state) <= {"messages", "files"}
            else:
                async for _ in working.astream(task(number), CONFIG, stream_mode="messages"):
                    pass
        assert record.holds()
        assert record.breaks == []
        assert is_whole((await working.aget_state(CONFIG)).values, 6)


def test_a_model_that_sends_through_an_engine_needs_no_middleware() -> None:
    """Sub-agents, which have the same model, are then kept as well."""
    with recorded(answer=reply) as record:
        chat = chat_openai("task", base_url=record.base_url, policy=LARGE, on_event=record.on_event)
        working = made(record, model=chat)
        for turn in range(2):
            working.invoke(boss(turn), CONFIG)
        assert record.cuts == []
        assert record.breaks == []


# -- what else shortens prompts


class Steps:
    """A model that remembers itself where it is in its task, and sums up when it is asked to."""

    def __init__(self) -> None:
        self.task, self.done = -1, 0

    def __call__(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if not request.get("tools"):
            return {"role": "assistant", "content": "Much was read."}
        if request["messages"][-1]["role"] == "user":
            asked = task_server.TASK.search(str(request["messages"][-1]["content"]))
            if asked is not None and int(asked[1]) > self.task:
                self.task, self.done = int(asked[1]), 0
        if self.done == 5:
            return {"role": "assistant", "content": f"Task {self.task} is done."}
        call = {"name": "read", "arguments": f'{{"task":{self.task},"step":{self.done}}}'}
        name = f"call_{self.task}_{self.done}"
        self.done += 1
        calls = [{"id": name, "type": "function", "function": call}]
        return {"role": "assistant", "content": None, "tool_calls": calls}


def test_summarization_stands_outside_and_acts_first_where_it_knows_the_window() -> None:
    """It counts the whole history, kvagent what is sent; so it sums up what kvagent has shortened
    already. Taken out, or without a window, it leaves the prompt to kvagent."""
    costs: dict[str, tuple[int, int, int]] = {}
    known = {"max_input_tokens": WINDOW}

    def measured(name: str, *middleware: Any, chat: str = "task", **options: Any) -> None:
        with recorded(answer=Steps()) as record:
            own = () if name == "deepagents" else (kv(record, Policy(window=WINDOW)),)
            chat_model = model(record.base_url, **options).model_copy(update={"model_name": chat})
            state = worked(record, *own, tasks=5, model=chat_model)
            assert is_whole(state, 5)
            calls = sum("tools" not in request for request in record.requests)
            costs[name] = record.prefilled, len(record.cuts), calls
            if own:
                assert record.holds()

    measured("deepagents", profile=known)
    measured("both", profile=known)
    measured("window unknown to it")
    with profile(excluded_middleware=frozenset({"SummarizationMiddleware"})) as chat:
        measured("excluded", chat=chat, profile=known)
    print(costs)
    assert costs["excluded"] == costs["window unknown to it"]
    assert costs["excluded"][2] == 0 < costs["both"][2]
    assert costs["excluded"][0] < costs["both"][0] < costs["deepagents"][0]


def writing(request: Mapping[str, Any]) -> dict[str, Any]:
    """A model that writes a long file with every step."""
    messages = request["messages"]
    done = sum(m["role"] == "tool" for m in messages)
    if done == 20:
        return {"role": "assistant", "content": "All is written."}
    text = json.dumps({"file_path": f"/{done}.txt", "content": f"word {done} " * 300})
    call = {"name": "write_file", "arguments": text}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{done}", "type": "function", "function": call}],
    }


def test_clipped_arguments_are_what_kvagent_replaces() -> None:
    """Summarization also clips long arguments behind the newest twenty messages: a window that
    moves with each turn. kvagent tells of every one."""
    costs = {}
    without = frozenset({"SummarizationMiddleware"})
    for name in ("deepagents", "both", "kvagent"):
        with recorded(answer=writing) as record:
            own = [] if name == "deepagents" else [kv(record)]
            with profile(excluded_middleware=without if name == "kvagent" else frozenset()) as chat:
                named = model(record.base_url).model_copy(update={"model_name": chat})
                working = made(record, *own, model=named)
            working.invoke({"messages": [("user", "Write.")]}, CONFIG)
            assert len(record.requests) == 21
            if own:
                assert record.holds()
            costs[name] = record.prefilled, len(record.cuts)
    print(costs)
    assert costs["kvagent"][1] == 0
    assert costs["both"][1] == costs["deepagents"][1] > 5
    assert 1.5 * costs["kvagent"][0] < costs["both"][0]


def test_large_results_become_files_before_they_are_sent() -> None:
    """deepagents' own eviction costs no prefix; kvagent sees the short form alone."""

    @tool("read")
    def long(task: int, step: int) -> str:
        """Read what a step of a task is about."""
        return "\n".join(f"line {n} of {task}/{step}" for n in range(8_000))

    with recorded() as record:
        state = worked(record, kv(record), tasks=2, tools=[long])
        assert record.cuts == []
        assert record.breaks == []
        assert len([f for f in state["files"] if f.startswith("/large_tool_results/")]) == 10
        assert record.prefilled <= 1.02 * tokens(record.requests[-1])


def test_a_prompt_that_is_refused_is_made_smaller_by_kvagent() -> None:
    """It learns the window from the refusal; deepagents' summarization, which would come next, is
    not needed."""
    with recorded(window=7_000, answer=Steps()) as record:
        state = worked(record, kv(record, Policy()), tasks=8)
        assert is_whole(state, 8)
        assert 1 <= record.server.refused <= 2
        assert all(request.get("tools") for request in record.requests)
        assert record.holds()


# -- sub-agents

ORDERS = re.compile(r"order (\d+)")


def boss(turn: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"order {turn}"}]}


def reply(request: Mapping[str, Any]) -> dict[str, Any]:
    """The scripted model, and one that gives its tasks to sub-agents, two at a time."""
    messages = request["messages"]
    newest = max(i for i, m in enumerate(messages) if m["role"] == "user")
    order = ORDERS.search(str(messages[newest]["content"]))
    if order is None:
        return task_server.reply(request)
    done = sum(m["role"] == "tool" for m in messages[newest:])
    if done == 4:
        return {"role": "assistant", "content": "All is done."}
    calls = []
    for number in range(done, done + 2):
        arguments = {
            "description": f"task {10 * int(order[1]) + number}: 5 steps",
            "subagent_type": ("general-purpose", "reader")[number % 2],
        }
        function = {"name": "task", "arguments": json.dumps(arguments)}
        calls.append({"id": f"call_{order[1]}_{number}", "type": "function", "function": function})
    return {"role": "assistant", "content": None, "tool_calls": calls}


class Looking(AgentMiddleware[Any, Any, Any]):
    """Notes what a sub-agent begins with, and what it ends with."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Any] = []
        self.after: list[Any] = []

    def before_agent(self, state: Any, runtime: Any) -> None:
        self.before.append(state.get("kvagent"))

    def after_agent(self, state: Any, runtime: Any) -> None:
        self.after.append(len(state["kvagent"]))


@pytest.mark.parametrize("shared", [False, True], ids=["two middlewares", "one middleware"])
def test_sub_agents_have_memories_of_their_own(shared: bool) -> None:
    """None gets in from above and none gets out."""
    with recorded(answer=reply) as record:
        own, looking = kv(record), Looking()
        reader = {
            "name": "reader",
            "description": "Reads.",
            "system_prompt": "You read.",
            "middleware": [own if shared else kv(record), looking],
        }
        working = made(record, own, subagents=[reader])
        for turn in range(3):
            working.invoke(boss(turn), CONFIG)
        state = working.get_state(CONFIG).values
        assert [before or [] for before in looking.before] == [[]] * 6
        assert looking.after == [5] * 6  # replies, as the third step is two calls at once
        asked = [r for r in record.requests if "order" in str(r["messages"][1]["content"])]
        assert len(state["kvagent"]) == len(asked) == 9
        assert record.cuts == []
        assert record.breaks == []
        results = [m.text for m in state["messages"] if m.type == "tool"]
        assert len(results) == 12
        assert all("is done" in text for text in results)


@pytest.mark.parametrize("by", ["profile", "middleware"])
def test_a_profile_reaches_every_agent(by: str) -> None:
    """Also the general-purpose one, which takes no middleware of its caller's."""
    with recorded(answer=reply) as record:

        def everywhere() -> list[Any]:
            return [kv(record, Policy(window=WINDOW))]

        with profile(extra_middleware=everywhere if by == "profile" else ()) as chat:
            named = model(record.base_url).model_copy(update={"model_name": chat})
            reader = {"name": "reader", "description": "Reads.", "system_prompt": "You read."}
            own = [] if by == "profile" else everywhere()
            working = made(record, *own, model=named, subagents=[reader])
        for turn in range(2):
            working.invoke(boss(turn), CONFIG)
        # Long results were shortened on arrival, in both kinds of sub-agents, or in none.
        heads = {parts(r)[1] for r in record.requests if "lines shown" in str(r["messages"])}
        assert len(heads) == (2 if by == "profile" else 0)
        assert record.holds()


def test_a_fork_goes_on_with_what_its_parent_sent() -> None:
    """A fork's prompt begins with the parent's: it is found in the cache."""
    with recorded(answer=reply) as record:
        reader = {"name": "reader", "description": "Reads.", "mode": "fork"}
        with pytest.warns(match="forked subagents"):
            working = made(record, kv(record), subagents=[reader])
        for turn in range(2):
            working.invoke(boss(turn), CONFIG)
        assert record.breaks == []
        forks = [
            count
            for request, count in zip(record.requests, record.server.prefilled, strict=True)
            if "prior conversation" in str(request["messages"][-1])
        ]
        assert len(forks) == 4
        assert max(forks) < 200
