"""Does an agent remember what it has sent, wherever and whenever it goes on?"""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver

from kvagent import Edited, Engine, Event, Policy, PrefixBroken, session
from kvagent.fingerprint import identity
from kvagent.stores import MemoryStore
from kvagent_langchain import wire
from kvagent_langchain.memory import Memories
from kvagent_langchain.middleware import KVAgentMiddleware
from kvagent_langchain.pages import PageStore

from .task_agent import CONFIG, POLICY, agent, task
from .task_server import TaskServer, task_server

TASKS = 6
EVICTING = Policy(window=9000, clear=None, compact=None)


@pytest.fixture
def tasks() -> Iterator[TaskServer]:
    with task_server() as server:
        yield server


class Forgetful(KVAgentMiddleware):
    """Knows nothing of the turn before but what the state holds."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        other = KVAgentMiddleware(self.policy, on_event=self._first.on_event)
        return other.wrap_model_call(request, handler)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def state_of(working: Any) -> dict[str, Any]:
    values: dict[str, Any] = working.get_state(CONFIG).values
    return values


def messages_of(body: bytes) -> list[Any]:
    messages: list[Any] = json.loads(body)["messages"]
    return messages


# -- pages


def items(store: PageStore, keys: list[tuple[str, bytes]]) -> list[tuple[bytes, ...]]:
    return [store.get(*key) for key in keys]


TEXTS = st.text(min_size=1, max_size=8).map(lambda text: text * (1 + 250 // len(text)))


@given(st.lists(st.tuples(TEXTS, st.integers(0, 3), st.binary(max_size=9)), max_size=9), st.data())
def test_pages_hold_what_was_added(
    parts: list[tuple[str, int, bytes]], data: st.DataObject
) -> None:
    """Also where texts of messages stand in it, plain or as JSON within JSON."""
    messages = [HumanMessage(text) for text, _, _ in parts]
    known = data.draw(st.integers(0, len(messages)))
    store, pages, keys = PageStore(), [], []
    for at, (text, depth, around) in enumerate(parts):
        for _ in range(depth):
            text = json.dumps(text, ensure_ascii=False)
        value = around + text.encode("utf-8", "surrogatepass") * (1 + at % 2) + around
        keys.append((f"n{at % 2}", b"key" + around))
        store.add(*keys[-1], value, around)
        page = store.page(messages[: min(at + 1, known)])
        assert page is None or isinstance(page, str)
        pages += [] if page is None else [page]
    assert store.page(messages) is None
    assert items(PageStore(pages, messages), keys) == items(store, keys)


def test_a_text_that_the_state_lacks_takes_only_what_it_stands_in_with_it() -> None:
    gone, kept = HumanMessage("gone " * 100), HumanMessage("kept " * 100)
    store = PageStore()
    store.add("", b"gone", b"{%b}" % gone.text.encode())
    store.add("", b"kept", b"{%b}" % kept.text.encode())
    page = store.page([gone, kept])
    assert page is not None
    assert len(page) < 200
    read = PageStore([page], [kept])
    assert read.get("", b"gone") == ()
    assert read.get("", b"kept") == store.get("", b"kept")


@pytest.mark.parametrize("bad", ["", "1:", "1:x", "1:eJw=", "0:eJwDAAAAAAE=", None, b"page", 7])
def test_of_a_page_that_cannot_be_read_nothing_is_known(
    bad: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Those before and after it are read."""
    store = PageStore()
    pages: list[object] = []
    for number in range(2):
        store.add("", b"%d" % number, b"value" * 100)
        pages.append(store.page([]))
    pages.insert(1, bad)
    read = PageStore(pages)
    assert read.get("", b"0") == read.get("", b"1") == (b"value" * 100,)
    assert "cannot read a page" in caplog.text
    read.add("", b"2", b"more")
    assert PageStore([*pages, read.page([])]).get("", b"2") == (b"more",)


def test_a_state_grows_by_little_beside_its_messages(tasks: TaskServer) -> None:
    """Pages hold what the messages lack: the forms sent, and their names."""
    working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=InMemorySaver())
    for number in range(TASKS):
        working.invoke(task(number), CONFIG)
    values = state_of(working)
    messages = sum(len(identity(wire.message(message))) for message in values["messages"])
    pages = [len(page) for page in values["kvagent"]]
    assert len(pages) == len(tasks.bodies)
    assert sum(pages) < 0.4 * messages
    assert sum(pages[20:]) < 1.3 * sum(pages[:10])


# -- the same agent elsewhere, and at another time


@pytest.mark.parametrize("window", [None, 3000])
def test_the_state_holds_all_that_bears_on_the_bytes(window: int | None) -> None:
    """What a refusal taught of the server's window, too."""
    sent, refused = [], []
    for middleware in (KVAgentMiddleware(POLICY), Forgetful(POLICY)):
        with task_server(window) as server:
            working = agent(server.base_url, [middleware], checkpointer=InMemorySaver())
            for number in range(TASKS):
                working.invoke(task(number), CONFIG)
        sent.append(server.bodies)
        refused.append(server.refused)
    assert sent[0] == sent[1]
    assert refused == ([0, 0] if window is None else [1, 1])


def test_an_agent_taken_back_in_time_sends_what_it_sent_then(tasks: TaskServer) -> None:
    """In the same process and in another one, from each checkpoint in front of the model."""
    saver = InMemorySaver()
    working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=saver)
    for number in range(4):
        working.invoke(task(number), CONFIG)
    sent = list(tasks.bodies)
    places = [place for place in working.get_state_history(CONFIG) if place.next == ("model",)]
    places.reverse()
    assert len(places) == len(sent)
    other = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=saver)
    for at, number in ((1, 0), (8, 1), (17, 3)):
        for goes_on in (working, other):
            tasks.bodies.clear()
            goes_on.invoke(None, places[at].config)
            assert tasks.bodies == sent[at : 5 * number + 5]


def test_a_branch_knows_only_what_was_known_where_it_began(tasks: TaskServer) -> None:
    """It sends what it would, had the other branch never been."""
    sent = []
    for other_branch in (False, True):
        working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=InMemorySaver())
        for number in range(3):
            working.invoke(task(number), CONFIG)
        here = working.get_state(CONFIG).config
        if other_branch:
            for number in range(3, 6):
                working.invoke(task(number), CONFIG)
        tasks.bodies.clear()
        working.invoke(task(8), here)
        working.invoke(task(9), CONFIG)
        sent.append(list(tasks.bodies))
    assert sent[0] == sent[1]


# -- edits by a human


def edits(working: Any) -> Iterator[tuple[str, Any, int]]:
    """What somebody does to the state, and which message on the wire is the first to change."""
    messages: list[BaseMessage] = state_of(working)["messages"]
    asked, calls = next(
        (at, message)
        for at, message in enumerate(messages)
        if at > 4 and isinstance(message, AIMessage) and message.tool_calls
    )
    other = [{**calls.tool_calls[0], "args": {"task": 9, "step": 9}}, *calls.tool_calls[1:]]
    yield "another argument", calls.model_copy(update={"tool_calls": other}), asked
    result = messages[asked + 1]
    assert isinstance(result, ToolMessage)
    yield "another result", result.model_copy(update={"content": "nothing"}), asked + 1
    newest = max(at for at, message in enumerate(messages) if message.type == "human")
    yield "another task", HumanMessage("task 7: 2 steps", id=messages[newest].id), newest
    end = next(at for at in range(asked + 1, len(messages)) if messages[at].type != "tool")
    gone = [RemoveMessage(id=message.id or "") for message in messages[asked:end]]
    yield "a call with its results removed", gone, asked


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("kind", [KVAgentMiddleware, Forgetful])
def test_what_a_human_edits_is_sent_and_told(
    tasks: TaskServer, number: int, kind: type[KVAgentMiddleware]
) -> None:
    """What stands before it goes out as it was."""
    events: list[Event] = []
    working = agent(
        tasks.base_url, [kind(EVICTING, on_event=events.append)], checkpointer=InMemorySaver()
    )
    for each in range(2):
        working.invoke(task(each), CONFIG)
    _, edit, place = list(edits(working))[number]
    before = messages_of(tasks.bodies[-1])
    assert not any(isinstance(event, PrefixBroken) for event in events)
    working.update_state(CONFIG, {"messages": edit})
    events.clear()
    working.invoke(task(5), CONFIG)
    after = messages_of(tasks.bodies[10])
    assert after[: place + 1] == before[: place + 1]  # the system message stands in front
    assert after[place + 1] != before[place + 1]
    broken = [event for event in events if isinstance(event, PrefixBroken)]
    assert [event.index for event in broken] == [place + 1]


# -- without a checkpointer


def test_a_history_handed_in_anew_is_gone_on_from(tasks: TaskServer) -> None:
    """As with a checkpointer, and also where an invocation failed, or is made once more."""
    working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=InMemorySaver())
    for number in range(TASKS):
        working.invoke(task(number), CONFIG)
    expected = list(tasks.bodies)
    for again in (False, True):
        tasks.bodies.clear()
        events: list[Event] = []
        bare = agent(tasks.base_url, [KVAgentMiddleware(POLICY, on_event=events.append)])
        messages: list[Any] = []
        for number in range(TASKS):
            given = {"messages": [*messages, *task(number)["messages"]]}
            if again:
                known = len(tasks.bodies)
                bare.invoke(given)
                del tasks.bodies[known:]
            messages = bare.invoke(given)["messages"]
        assert tasks.bodies == expected
        assert not any(isinstance(event, PrefixBroken) for event in events)
        assert any(isinstance(event, Edited) and event.stage == "compact" for event in events)


def test_a_history_handed_to_a_thread_brings_all_its_pages(tasks: TaskServer) -> None:
    """So that the thread goes on in another process as well."""
    saver = InMemorySaver()
    middleware = KVAgentMiddleware(POLICY)
    bare = agent(tasks.base_url, [middleware])
    messages: list[Any] = []
    for number in range(4):
        messages = bare.invoke({"messages": [*messages, *task(number)["messages"]]})["messages"]
    threaded = agent(tasks.base_url, [middleware], checkpointer=saver)
    threaded.invoke({"messages": [*messages, *task(4)["messages"]]}, CONFIG)
    assert len(state_of(threaded)["kvagent"]) == 25
    bare.invoke(
        {"messages": [*threaded.get_state(CONFIG).values["messages"], *task(5)["messages"]]}
    )
    expected = tasks.bodies[25:]
    elsewhere = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=saver)
    elsewhere.invoke(task(5), CONFIG)
    assert tasks.bodies[30:] == expected


def test_a_fan_out_shares_what_was_sent(tasks: TaskServer) -> None:
    """Many at once that go on from one history."""
    middleware = KVAgentMiddleware(POLICY)
    bare = agent(tasks.base_url, [middleware])
    messages: list[Any] = []
    for number in range(3):
        messages = bare.invoke({"messages": [*messages, *task(number)["messages"]]})["messages"]
    known = messages_of(tasks.bodies[-1])
    tasks.bodies.clear()
    given = [{"messages": [*messages, *task(number, 1)["messages"]]} for number in range(10, 16)]
    bare.batch(given)
    assert len(tasks.bodies) == 12
    assert all(messages_of(body)[: len(known)] == known for body in tasks.bodies)


def test_one_tenant_does_not_go_on_from_pages_of_another(tasks: TaskServer) -> None:
    working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=InMemorySaver())
    with session("a", namespace="one"):
        messages = agent(tasks.base_url, [working_middleware := KVAgentMiddleware(POLICY)]).invoke(
            task(0)
        )["messages"]
    working = agent(tasks.base_url, [working_middleware], checkpointer=InMemorySaver())
    with session("b", namespace="two"):
        working.invoke({"messages": [*messages, *task(1)["messages"]]}, CONFIG)
    assert len(state_of(working)["kvagent"]) == 5


# -- a store for all threads


@pytest.mark.parametrize("kind", ["path", "store"])
def test_a_store_keeps_states_free_of_pages(tasks: TaskServer, tmp_path: Path, kind: str) -> None:
    """Threads and processes share it."""
    store = str(tmp_path / "kvagent.db") if kind == "path" else MemoryStore()
    saver = InMemorySaver()
    first = agent(tasks.base_url, [KVAgentMiddleware(POLICY, store=store)], checkpointer=saver)
    for number in range(4):
        first.invoke(task(number), CONFIG)
    assert not state_of(first)["kvagent"]
    sent = list(tasks.bodies)
    if kind == "path":  # another process has the file
        first = agent(tasks.base_url, [KVAgentMiddleware(POLICY, store=store)], checkpointer=saver)
    first.invoke(task(4), CONFIG)
    known = messages_of(sent[-1])
    assert messages_of(tasks.bodies[20])[: len(known)] == known
    # Another thread that begins alike.
    tasks.bodies.clear()
    first.invoke(task(0), thread("2"))
    assert tasks.bodies == sent[:5]


# -- the work of a turn, and the memory that it takes


def test_pages_are_read_once_by_a_process_that_goes_on(
    tasks: TaskServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the work of a turn grows with what is new."""
    read: list[int] = []
    begin = PageStore.__init__

    def counted(store: PageStore, pages: Any = (), messages: Any = ()) -> None:
        read.append(len(pages))
        begin(store, pages, messages)

    monkeypatch.setattr(PageStore, "__init__", counted)
    saver = InMemorySaver()
    for _ in range(2):
        working = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=saver)
        for number in range(2):
            working.invoke(task(number, 2), CONFIG)
    assert read == [0, 6]


@pytest.mark.parametrize("max_bytes", [1, 1 << 30])
def test_only_so_many_memories_are_kept(max_bytes: int) -> None:
    """The others are made of their pages when they are wanted."""
    made: list[PageStore] = []

    def engine(store: PageStore) -> Engine:
        made.append(store)
        return Engine(store=store)

    memories = Memories(engine, max_bytes)
    pages: list[list[str]] = []
    for number in range(100):
        memory = memories.take([], [], [])
        assert memory.store is not None
        memory.store.add("", b"%d" % number, b"value")
        pages.append(memory.written([]))
        memories.give_back(memory, [b"%d" % number])
    for number in reversed(range(100)):
        memory = memories.take(pages[number], [], [])
        assert memory.store is not None
        assert memory.store.get("", b"%d" % number) == (b"value",)
    assert len(made) == 100 + (99 if max_bytes == 1 else 100 - 64)


def test_a_store_weighs_what_it_says() -> None:
    store = PageStore()
    tracemalloc.start()
    try:
        for number in range(100):
            store.add("", b"%d" % number, orjson.dumps({"number": number, "text": 1000 * "x"}))
        store.page([])
        weight, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert weight < 2 * store.size


@pytest.mark.parametrize(("max_bytes", "known"), [(1, 1), (1 << 30, 20)])
def test_only_so_many_pages_are_kept_by_their_history(max_bytes: int, known: int) -> None:
    memories = Memories(lambda store: Engine(store=store), max_bytes)
    histories = [[b"%d" % number] for number in range(20)]
    for history in histories:
        memory = memories.take([], [], [])
        assert memory.store is not None
        memory.store.add("", history[0], b"value")
        memory.written([])
        memories.give_back(memory, history)
    taken = [memories.take([], [], history) for history in histories]
    assert [len(memory.pages) for memory in taken] == (20 - known) * [0] + known * [1]


# -- many at once


def test_threads_do_not_disturb_each_other(tasks: TaskServer) -> None:
    middleware = KVAgentMiddleware(POLICY)
    alone = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=InMemorySaver())
    for number in range(4):
        alone.invoke(task(number), CONFIG)
    expected = list(tasks.bodies)
    tasks.bodies.clear()
    together = agent(tasks.base_url, [middleware], checkpointer=InMemorySaver())

    def work(name: int) -> None:
        for number in range(4):
            together.invoke(task(number), thread(str(name)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sorted(tasks.bodies) == sorted(4 * expected)


async def test_coroutines_do_not_disturb_each_other(tasks: TaskServer) -> None:
    alone = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=InMemorySaver())
    for number in range(3):
        await alone.ainvoke(task(number), CONFIG)
    expected = list(tasks.bodies)
    tasks.bodies.clear()
    together = agent(tasks.base_url, [KVAgentMiddleware(POLICY)], checkpointer=InMemorySaver())

    async def work(name: int) -> None:
        for number in range(3):
            await together.ainvoke(task(number), thread(str(name)))

    await asyncio.gather(*map(work, range(4)))
    assert sorted(tasks.bodies) == sorted(4 * expected)
