"""Are hints added where they help, and nowhere else?"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvagent
from kvagent import Edited, Engine, Hints, Policy
from kvagent.backends import Server
from kvagent.hints import Hinter, Pins, added
from tests.wire import Wire, kept, say

LLAMACPP = Server("llama.cpp", window=4096, slots=2, reports_cached=True)
VLLM = Server("vllm", window=4096, block_size=16, reports_cached=True)
HEAD, HELLO = say("system", "Be brief."), say("user", "Hello")


def wire(server: Server | None, namespace: str = "", **hints: Any) -> Wire:
    engine = Engine(Policy(probe=False, hints=Hints(**hints)), namespace=namespace)
    engine.server = server
    made = Wire(engine)
    engine.on_event = made.events.append
    return made


def hinted(wired: Wire) -> list[str]:
    return [event.cause for event in wired.of(Edited) if event.stage == "hints"]


def test_nothing_is_added_by_default() -> None:
    wired = wire(LLAMACPP)
    wired.send([HEAD, HELLO], say("assistant", "Hi."))
    assert set(wired.bodies[0]) == {"messages", "model"}
    assert hinted(wired) == []


def test_each_conversation_keeps_its_slot() -> None:
    wired = wire(LLAMACPP, id_slot="conversation")
    one, two = [HEAD, say("user", "One?")], [HEAD, say("user", "Two?")]
    for number in range(3):
        for history in (one, two):
            wired.send(history, say("assistant", f"{number}."))
            history += [say("assistant", f"{number}."), say("user", "On.")]
    assert [body["id_slot"] for body in wired.bodies] == [0, 1] * 3
    assert all(kept(a, b) for a, b in zip(wired.bodies, wired.bodies[2:], strict=False))
    assert hinted(wired) == ["id_slot"] * 6


def test_a_role_has_one_slot_for_all_its_conversations() -> None:
    wired = wire(LLAMACPP, id_slot="role")
    judge = say("system", "Judge.")
    for number in range(3):
        wired.send([HEAD, say("user", f"Task {number}")], say("assistant", "Done."))
        wired.send([judge, say("user", f"Judge {number}")], say("assistant", "Good."))
    assert [body["id_slot"] for body in wired.bodies] == [0, 1] * 3


def test_with_more_conversations_than_slots_nobody_is_pinned() -> None:
    wired = wire(LLAMACPP, id_slot="conversation")
    for number in range(3):
        wired.send([HEAD, say("user", f"Task {number}")], say("assistant", "Done."))
    wired.send([HEAD, say("user", "Task 0"), say("assistant", "Done."), HELLO])
    assert [body.get("id_slot") for body in wired.bodies] == [0, 1, None, None]


@pytest.mark.parametrize("server", [None, VLLM, Server("openai"), Server("llama.cpp", slots=1)])
def test_a_server_without_slots_to_choose_from_is_sent_none(server: Server | None) -> None:
    wired = wire(server, id_slot="conversation", cache_prompt=server is None)
    wired.send([HEAD, HELLO], say("assistant", "Hi."))
    assert set(wired.bodies[0]) == {"messages", "model"}


def test_tenants_have_different_salts_and_the_same_always() -> None:
    salts = []
    for namespace in ("acme", "globex", "acme"):
        wired = wire(VLLM, namespace, cache_salt=True)
        wired.send([HEAD, HELLO], say("assistant", "Hi."))
        salts.append(wired.bodies[0]["cache_salt"])
    assert salts[0] == salts[2] != salts[1]
    assert "acme" not in salts[0]


def test_without_a_namespace_there_is_no_salt() -> None:
    wired = wire(VLLM, cache_salt=True)
    wired.send([HEAD, HELLO], say("assistant", "Hi."))
    assert "cache_salt" not in wired.bodies[0]


def test_what_the_agent_sets_stays() -> None:
    wired = wire(LLAMACPP, id_slot="conversation", cache_prompt=True)
    wired.send([HEAD, HELLO], say("assistant", "Hi."), id_slot=1, cache_prompt=False)
    assert (wired.bodies[0]["id_slot"], wired.bodies[0]["cache_prompt"]) == (1, False)


def test_observing_adds_nothing() -> None:
    engine = Engine(Policy(probe=False, mode="observe", hints=Hints(id_slot="conversation")))
    engine.server = LLAMACPP
    wired = Wire(engine)
    wired.send([HEAD, HELLO], say("assistant", "Hi."))
    assert "id_slot" not in wired.bodies[0]


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_name_of_a_conversation_fits_a_header(one: str, other: str) -> None:
    hinter = Hinter(Hints(session_header="X-Session"))
    first, second = (hinter.headers(name)["X-Session"] for name in (one, other))
    assert re.fullmatch(r"[!-~]+", first)
    assert 0 < len(first) <= 200
    assert (first == second) == (one == other)
    assert hinter.headers("ticket-4711") == {"X-Session": "ticket-4711"}


@given(st.lists(st.sampled_from("abcdef"), max_size=60), st.integers(2, 4))
def test_two_pinned_conversations_never_share_a_slot(keys: list[str], slots: int) -> None:
    pins = Pins()
    latest: dict[str, int | None] = {}
    for key in keys:
        latest[key] = pins.slot(key, slots)
        slot = latest[key]
        assert slot is None or 0 <= slot < slots
        # Whoever was pinned among the last `slots` conversations has another one.
        recent = list(dict.fromkeys(reversed(keys[: keys.index(key) + 1])))[:slots]
        assert slot is None or all(latest.get(k) != slot for k in recent if k != key)


@given(
    st.dictionaries(st.text(max_size=4), st.integers() | st.text(), max_size=3),
    st.dictionaries(st.sampled_from(["id_slot", "cache_salt"]), st.integers(0, 9)),
    st.sampled_from([None, 2]),
)
def test_fields_are_added_at_the_end(
    body: dict[str, Any], fields: dict[str, Any], indent: int | None
) -> None:
    raw = json.dumps(body, indent=indent).encode() + b"\n"
    assert json.loads(added(raw, fields)) == {**body, **fields}


def test_a_pinned_sub_agent_leaves_its_parent_alone() -> None:
    """On a real llama.cpp: both share the system text, so without pins the one takes the other's slot."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    openai = pytest.importorskip("openai")
    from kvagent.cli.demo.server import LlamaCpp

    system = "You work in a repository and answer in one word. " * 4
    cached: dict[str | None, int] = {}
    with LlamaCpp(n_parallel=2, n_ctx=4096) as server:
        for pin in (None, "conversation"):
            turns: list[kvagent.TurnFinished] = []
            client = kvagent.wrap(
                openai.OpenAI(base_url=server.base_url, api_key="none", timeout=300),
                policy=Policy(hints=Hints(id_slot=pin)),
                on_event=lambda e, t=turns: t.append(e) if isinstance(e, kvagent.TurnFinished) else 0,
            )  # fmt: skip
            main = [
                {"role": "system", "content": f"{pin} {system}"},
                {"role": "user", "content": "Name a colour that you like, or two, or three."},
            ]
            sub = [main[0], {"role": "user", "content": "Name an animal instead."}]
            for messages in (main, sub):
                client.chat.completions.create(model="m", messages=messages, max_tokens=1)
            client.chat.completions.create(
                model="m",
                messages=[*main, {"role": "user", "content": "Another."}],
                max_tokens=1,
            )
            assert turns[2].cached_tokens is not None
            assert turns[0].prompt_tokens is not None
            cached[pin] = turns[2].cached_tokens - turns[0].prompt_tokens
            client.close()
    assert cached[None] < cached["conversation"]
    assert cached["conversation"] >= -5  # the prompt of the first turn, but for its last few tokens
