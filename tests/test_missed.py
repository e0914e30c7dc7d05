"""Is a miss told, with the cause that fits, and no miss where there is none?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvagent
from kvagent import CacheMissed, Engine, Policy, TurnFinished
from kvagent.backends import Server
from kvagent.missed import Misses
from tests.wire import Message, Wire, say

SLOTS = Server("llama.cpp", window=8192, slots=2, reports_cached=True)
BLOCKS = Server("vllm", window=8192, block_size=128, reports_cached=True)
HEAD = say("system", "Be brief.")


def talk(wire: Wire, name: str, counts: list[tuple[int, int]], history: list[Message]) -> None:
    """Turns of one conversation; each has the server's prompt and cached tokens."""
    for prompt, cached in counts:
        history.append(say("user", f"{name} {len(history)}"))
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        answer = say("assistant", f"Answer {len(history)} to {name}.")
        wire.send([HEAD, *history], answer, usage=usage)
        history.append(answer)


def wired(server: Server | None) -> Wire:
    wire = Wire(Engine(Policy(probe=False)))
    wire.engine.server = server
    wire.engine.on_event = wire.events.append
    return wire


@pytest.mark.parametrize("server", [SLOTS, BLOCKS, None])
def test_a_conversation_that_is_served_from_the_cache_misses_nothing(server: Server | None) -> None:
    wire = wired(server)
    block = server.block_size if server and server.block_size else 1
    counts = [(400, 0), (460, 400), (700, 460), (900, 720)]
    talk(wire, "a", [(prompt, cached // block * block) for prompt, cached in counts], [])
    assert not wire.of(CacheMissed)


@pytest.mark.parametrize(("server", "cause"), [(SLOTS, "slot_lost"), (BLOCKS, "evicted")])
def test_what_others_took(server: Server, cause: str) -> None:
    wire = wired(server)
    mine: list[Message] = []
    talk(wire, "a", [(600, 0)], mine)
    talk(wire, "b", [(900, 0)], [])
    talk(wire, "a", [(660, 128)], mine)
    (missed,) = wire.of(CacheMissed)
    assert (missed.cause, missed.cached_tokens) == (cause, 128)
    assert missed.expected_tokens == (512 if server is BLOCKS else 584)


def test_another_branch_of_the_same_conversation() -> None:
    wire = wired(SLOTS)
    trunk: list[Message] = []
    talk(wire, "a", [(600, 0)], trunk)
    talk(wire, "b", [(660, 600)], [*trunk])
    talk(wire, "c", [(660, 0)], [*trunk])
    (missed,) = wire.of(CacheMissed)
    assert missed.cause == "slot_lost"
    assert "another branch" in missed.detail


def test_a_restart() -> None:
    wire = wired(SLOTS)
    talk(wire, "a", [(600, 0), (660, 0)], [])
    assert [missed.cause for missed in wire.of(CacheMissed)] == ["restart"]


def test_a_template_that_renders_old_messages_anew() -> None:
    wire = wired(SLOTS)
    talk(wire, "a", [(600, 0), (660, 300)], [])
    assert [missed.cause for missed in wire.of(CacheMissed)] == ["template"]


def test_a_prefix_that_broke_is_told_as_such_and_not_as_a_miss() -> None:
    wire = wired(SLOTS)
    history: list[Message] = []
    talk(wire, "a", [(600, 0), (660, 600)], history)
    history[0] = say("user", "Something else.")
    talk(wire, "a", [(700, 10)], history)
    assert wire.of(kvagent.PrefixBroken)
    assert not wire.of(CacheMissed)


def test_unknown_is_no_miss() -> None:
    wire = wired(BLOCKS)
    history: list[Message] = []
    for prompt in (400, 500):
        history.append(say("user", f"{prompt}"))
        usage = {"prompt_tokens": prompt, "prompt_tokens_details": None}
        wire.send([HEAD, *history], say("assistant", "Yes."), usage=usage)
        history.append(say("assistant", "Yes."))
    assert len(wire.of(TurnFinished)) == 2
    assert not wire.of(CacheMissed)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5000)), max_size=30),
    st.integers(1, 200),
)
def test_what_fills_whole_blocks_is_never_a_miss(turns: list[tuple[str, int]], block: int) -> None:
    misses = Misses()
    server = Server("vllm", block_size=block)
    for name, known in turns:
        assert misses.judge(name, known, known, known // block * block, server) is None


def test_two_agents_on_one_slot_of_a_real_server(llamacpp: str) -> None:
    openai = pytest.importorskip("openai")
    events: list[kvagent.Event] = []
    client = kvagent.wrap(
        openai.OpenAI(base_url=llamacpp, api_key="none", timeout=300), on_event=events.append
    )
    histories = [[{"role": "user", "content": f"{text} " * 40}] for text in ("apples", "pears")]
    for _ in range(2):
        for history in histories:
            reply = client.chat.completions.create(model="m", messages=history, max_tokens=4)
            history.append({"role": "assistant", "content": reply.choices[0].message.content})
            history.append({"role": "user", "content": "And?"})
    client.close()
    missed = [event for event in events if isinstance(event, CacheMissed)]
    assert [event.cause for event in missed] == ["slot_lost", "slot_lost"]
