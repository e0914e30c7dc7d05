"""Is the template mended by what its profile says, once for a conversation, and nothing else changed?"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kvagent import Edited, Engine, MemoryStore, Mend, Policy, PrefixBroken
from kvagent.backends import Server
from kvagent.mender import with_opening, with_switches
from tests.wire import Message, Wire, kept, say

pytest.importorskip("jinja2", reason="templates need kvagent[exact]")

_FRAME = """{%%- set ns = namespace(last=-1) -%%}
{%%- for m in messages -%%}
    {%%- if m.role == 'user' -%%}{%%- set ns.last = loop.index0 -%%}{%%- endif -%%}
{%%- endfor -%%}
{%%- for m in messages -%%}
<|im_start|>{{ m.role }}
{%% if m.role == 'assistant' and m.reasoning_content and (%s) -%%}
<think>{{ m.reasoning_content }}</think>
{%% endif -%%}
{{ m.content or '' }}{%% for c in m.tool_calls or [] %%}<call>{{ c.function | tojson }}</call>{%% endfor %%}<|im_end|>
{%% endfor -%%}
{%%- if add_generation_prompt -%%}<|im_start|>assistant
{%% endif -%%}"""
KEEPS = _FRAME % "true"
DROPS = _FRAME % "loop.index0 > ns.last"
SWITCHED = _FRAME % "preserve_thinking or loop.index0 > ns.last"

HEAD = say("system", "Be brief.")
THOUGHT = "They greet me. I greet them back, and ask how I can help."


def wired(template: str | None, store: MemoryStore | None = None, **policy: Any) -> Wire:
    engine = Engine(Policy(probe=False, **policy), store=store)
    engine.server = Server("llama.cpp", window=8192, slots=1, template=template)
    wire = Wire(engine)
    engine.on_event = wire.events.append
    return wire


def talk(wire: Wire, turns: int = 3, **options: Any) -> list[dict[str, Any]]:
    """An agent whose framework drops reasoning; the bodies that went out."""
    history: list[Message] = []
    for turn in range(turns):
        history.append(say("user", f"Hello {turn}"))
        reply = say(
            "assistant", f"Hello yourself, for the {turn}. time.", reasoning_content=THOUGHT
        )
        wire.send([HEAD, *history], reply, **options)
        history.append({key: reply[key] for key in ("role", "content")})
    return wire.bodies


def test_reasoning_is_sent_again_where_the_template_keeps_it() -> None:
    wire = wired(KEEPS)
    bodies = talk(wire)
    assert [
        m.get("reasoning_content") for m in bodies[2]["messages"] if m["role"] == "assistant"
    ] == [THOUGHT] * 2
    assert all(kept(a, b) for a, b in pairwise(bodies))
    assert {e.cause for e in wire.of(Edited)} >= {"reasoning_dropped"}


@pytest.mark.parametrize(
    ("template", "policy"),
    [
        (DROPS, {}),
        (None, {}),
        ("{{ broken", {}),
        (KEEPS, {"mend": None}),
        (KEEPS, {"mend": Mend(reasoning=False)}),
        (KEEPS, {"mode": "safe"}),
        (KEEPS, {"mode": "observe"}),
    ],
)
def test_reasoning_stays_away_where_it_does_not_help_or_is_not_wanted(
    template: str | None, policy: dict[str, Any]
) -> None:
    bodies = talk(wired(template, **policy))
    assert THOUGHT not in json.dumps(bodies)
    assert "chat_template_kwargs" not in bodies[-1]


def test_what_an_agent_sends_itself_stays() -> None:
    wire = wired(KEEPS)
    reply = say("assistant", "Hello.", reasoning_content=THOUGHT)
    wire.send([HEAD, say("user", "Hello")], reply)
    sent = wire.send(
        [HEAD, say("user", "Hello"), {**reply, "reasoning_content": "Short."}, say("user", "On.")]
    )
    assert sent[2]["reasoning_content"] == "Short."


def test_a_switch_is_thrown_from_the_first_request_on() -> None:
    wire = wired(SWITCHED, mend=Mend(switches=True))
    bodies = talk(wire)
    assert [body["chat_template_kwargs"] for body in bodies] == [{"preserve_thinking": True}] * 3
    assert not wire.of(PrefixBroken)
    assert [e.stage for e in wire.of(Edited) if e.cause == "chat_template_kwargs"] == ["mend"] * 3


@pytest.mark.parametrize("dump", [json.dumps, lambda v: json.dumps(v, separators=(",", ":"))])
def test_the_agent_s_own_switches_go_first(dump: Any) -> None:
    own = {"enable_thinking": True, "preserve_thinking": False}
    bodies = talk(wired(SWITCHED, mend=Mend(switches=True)), chat_template_kwargs=own, dump=dump)
    assert [body["chat_template_kwargs"] for body in bodies] == [own] * 3


def test_what_was_settled_stays_in_another_process_that_knows_nothing_of_the_template(
    tmp_path: Path,
) -> None:
    """A conversation that began with the switch keeps it, one that began without stays without."""
    from kvagent.stores.sqlite import SQLiteStore

    histories = {True: "with", False: "without"}
    path = tmp_path / "kv.sqlite"
    for knows in (True, False):
        engine = Engine(Policy(probe=False, mend=Mend(switches=True)), store=SQLiteStore(path))
        engine.server = Server("llama.cpp", template=SWITCHED if knows else None)
        Wire(engine).send(
            [HEAD, say("user", histories[knows])], say("assistant", "A reply of some length.")
        )
        engine.store.close()
    for began in (True, False):
        engine = Engine(Policy(probe=False, mend=Mend(switches=True)), store=SQLiteStore(path))
        engine.server = Server("llama.cpp", template=None if began else SWITCHED)
        wire = Wire(engine)
        wire.send(
            [
                HEAD,
                say("user", histories[began]),
                say("assistant", "A reply of some length."),
                say("user", "On."),
            ]
        )
        assert ("chat_template_kwargs" in wire.bodies[0]) is began
        engine.store.close()


DEFAULTED = (
    """{%- if messages[0].role != 'system' -%}<|im_start|>system
Today is {{ strftime_now('%d %B %Y') }}.<|im_end|>
{% endif -%}"""
    + KEEPS
)


@pytest.mark.parametrize("dump", [json.dumps, lambda v: json.dumps(v, separators=(",", ":"))])
def test_a_conversation_without_a_system_message_gets_one(dump: Any) -> None:
    wire = wired(DEFAULTED, mend=Mend(system_message=True))
    history: list[Message] = []
    for turn in range(3):
        history.append(say("user", f"Hello {turn}"))
        wire.send(history, say("assistant", f"Hello for the {turn}. time."), dump=dump)
        history.append(say("assistant", f"Hello for the {turn}. time."))
    assert [body["messages"][0]["role"] for body in wire.bodies] == ["system"] * 3
    assert [len(body["messages"]) for body in wire.bodies] == [2, 4, 6]
    assert all(kept(a, b) for a, b in pairwise(wire.bodies))
    assert not wire.of(PrefixBroken)
    assert [e.cause for e in wire.of(Edited)] == ["system_message"] * 3


def test_a_conversation_that_has_a_system_message_gets_no_other() -> None:
    wire = wired(DEFAULTED, mend=Mend(system_message=True))
    assert [m["role"] for m in wire.send([HEAD, say("user", "Hello")])] == ["system", "user"]
    other = wired(KEEPS, mend=Mend(system_message=True))
    assert [m["role"] for m in other.send([say("user", "Hello")])] == ["user"]


def test_a_template_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "template.jinja"
    file.write_text(SWITCHED)
    engine = Engine(Policy(template=file, mend=Mend(switches=True)))
    flow = engine.probe()
    try:
        next(flow)
        while True:
            from kvagent.backends import Fetched

            flow.send(Fetched(404, b""))
    except StopIteration:
        pass
    wire = Wire(engine)
    talk(wire, 1)
    assert wire.bodies[0]["chat_template_kwargs"] == {"preserve_thinking": True}


def test_a_template_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Policy.template: cannot read .*nowhere.jinja"):
        Engine(Policy(template=tmp_path / "nowhere.jinja"))


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","chat_template_kwargs":"no"}',
        b'{"chat_template_kwargs": {"a": 1}, "x": 1}',
        b'{"chat_template_kwargs":{"a":1},"metadata":{"chat_template_kwargs":{"a":1}}}',
    ],
)
def test_in_doubt_the_request_stays(body: bytes) -> None:
    twice = b'{"messages":[1],"metadata":{"messages":[2]}}'
    assert with_opening(twice, b"{}") is twice
    assert with_switches(body, json.loads(body), b'{"b":true}') is body


def test_without_the_extra_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    bodies = talk(wired(SWITCHED, mend=Mend(switches=True)))
    assert all("chat_template_kwargs" not in body for body in bodies)
    assert [record.message for record in caplog.records].count(
        "kvagent sets no switches: that needs kvagent[exact]"
    ) == 1
