"""Is text that an agent moves told from text that it takes away, and held where that pays?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent import Edited, Engine, Policy, PrefixBroken
from tests.wire import Message, Wire, call, compact, kept, result, say

REMINDER = "<reminder>Mind the gap, please.</reminder>"
PLAIN = "Mind the gap between the train and the platform."
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LONG = "This is a reply that is long enough to be told from what any other server may have said."


def text(value: str) -> Message:
    return {"type": "text", "text": value}


def second(first: Message, again: Message, newest: Any) -> Wire:
    """Two turns: ``first`` comes back as ``again``, and ``newest`` is what follows."""
    wire = Wire()
    head, reply = say("system", "You help."), say("assistant", LONG)
    wire.send([head, first], reply)
    wire.send([head, again, reply, say("user", newest)], reply)
    return wire


def was_held(wire: Wire) -> bool:
    held = kept(wire.bodies[0], wire.bodies[1])
    assert held == ("text_moved" in {event.cause for event in wire.of(Edited)})
    return held


@pytest.mark.parametrize(
    ("first", "again", "newest"),
    [
        (f"Go. {PLAIN}", "Go.", f"On. {PLAIN}"),
        (f"Go. {PLAIN}", "Go.", [text("On."), text(PLAIN)]),
        ([text("Go."), text(PLAIN)], "Go.", f"On. {PLAIN}"),
        ([text("Go."), IMAGE, text(REMINDER)], [text("Go."), IMAGE], f"On. {REMINDER}"),
        (f"{REMINDER}{PLAIN}", PLAIN, f"On. {REMINDER}"),
        (REMINDER, "", f"On. {REMINDER}"),
        (f"a{REMINDER}a", "aa", f"On. {REMINDER}"),
        (
            f"Go.\n{REMINDER}\n<x>some more text</x>",
            "Go.",
            "On. <reminder>Other.</reminder><x>y</x>",
        ),
        (f"Go.\n{REMINDER}", "Go.", 'On. <reminder kind="other">Other.</reminder>'),
    ],
)
def test_text_that_stands_in_a_newer_message_was_moved(first: Any, again: Any, newest: Any) -> None:
    assert was_held(second(say("user", first), say("user", again), newest))


@pytest.mark.parametrize(
    ("first", "again", "newest"),
    [
        (f"Go. {PLAIN}", "Go.", "On."),
        (f"Go. {PLAIN}", "Go.", f"On. {PLAIN[:-9]}"),
        (f"Go. {PLAIN}", "Stop.", f"On. {PLAIN}"),
        ("Go. Again.", "Go.", "On. Again."),  # too short to be sure
        (f"Go.\n{REMINDER}", "Go.", "On. <reminders>x</reminders>"),
        (f"Go.\n{REMINDER} {PLAIN}", "Go.", f"On. {REMINDER}"),
        (f"Go. {REMINDER}", f"Go. {REMINDER} Now.", f"On. {REMINDER}"),
        ([text("Go."), IMAGE, text(REMINDER)], "Go.", f"On. {REMINDER}"),
        (f"Go.\n<p>{PLAIN}", "Go.", "On. <p>"),
    ],
)
def test_other_text_was_not(first: Any, again: Any, newest: Any) -> None:
    wire = second(say("user", first), say("user", again), newest)
    assert not was_held(wire)
    assert wire.bodies[1]["messages"][1]["content"] == again


def test_another_key_makes_another_message() -> None:
    first = say("user", f"Go. {REMINDER}", name="ada")
    assert was_held(second(first, say("user", "Go.", name="ada"), REMINDER))
    assert not was_held(second(first, say("user", "Go.", name="bob"), REMINDER))


def test_a_whole_message_is_held_only_before_what_came_after_it() -> None:
    head, reply = say("system", "You help."), say("assistant", LONG)
    question, reminder = say("user", "Go."), say("user", REMINDER)
    wire = Wire()
    wire.send([head, question, reminder], reply)
    other = say("assistant", "The agent wrote this itself, and no server ever did.")
    sent = wire.send([head, question, other, say("user", "On."), reminder], reply)
    assert reminder not in sent[:3]


def test_a_message_that_is_dropped_and_not_moved_is_gone() -> None:
    head, reply = say("system", "You help."), say("assistant", LONG)
    wire = Wire()
    wire.send([head, say("user", "Go."), say("user", REMINDER)], reply)
    sent = wire.send([head, say("user", "Go."), reply, say("user", "On.")], reply)
    assert REMINDER not in json.dumps(sent)


def test_another_conversation_never_gets_the_first_message_of_one() -> None:
    reply = say("assistant", LONG)
    wire = Wire()
    wire.send([say("user", REMINDER), say("user", "Go.")], reply)
    sent = wire.send([say("user", "Go."), say("assistant", "Else."), say("user", REMINDER)], reply)
    assert [message["content"] for message in sent] == ["Go.", "Else.", REMINDER]


def test_results_hold_moved_text_too() -> None:
    wire = Wire()
    history = [say("user", "Go."), call("call-1"), result("call-1", f"Done.\n{REMINDER}")]
    wire.send(history[:1], history[1])
    wire.send(history, call("call-2"))
    history[2] = result("call-1", "Done.")
    wire.send([*history, call("call-2"), result("call-2", f"Done.\n{REMINDER}")])
    assert kept(wire.bodies[1], wire.bodies[2])


def test_safe_mode_sends_what_the_agent_says() -> None:
    wire = Wire(mode="safe")
    reply = say("assistant", LONG)
    wire.send([say("user", f"Go. {REMINDER}")], reply)
    sent = wire.send([say("user", "Go."), reply, say("user", f"On. {REMINDER}")], reply)
    assert sent[0]["content"] == "Go."


def test_text_stays_held_turn_after_turn() -> None:
    wire = Wire()
    history: list[Message] = []
    for number in range(6):
        newest = say("user", f"Question {number}? {REMINDER}")
        reply = say("assistant", f"{number}: {LONG}")
        wire.send([*history, newest], reply, dump=json.dumps if number % 2 else compact)
        history += [say("user", f"Question {number}?"), reply]
    assert all(kept(a, b) for a, b in zip(wire.bodies, wire.bodies[1:], strict=False))
    assert sum(REMINDER in m["content"] for m in wire.bodies[-1]["messages"]) == 6


def test_long_results_that_an_agent_cuts_are_looked_at_in_time() -> None:
    """Nothing is measured: what takes squares of this length would be noticed."""
    page = "<p>" * 100_000
    assert not was_held(second(say("user", f"Go. {page}"), say("user", "Go."), "On. <p>"))
    assert not was_held(second(say("user", "a" * 200_000), say("user", "a" * 9), "On. <p>"))


# -- text so long that holding it costs more than it spares

Place = Callable[[str, str], list[Message]]
"""Where an agent puts documents: of these and a question, the newest messages."""

PLACES: dict[str, Place] = {
    "in front": lambda docs, question: [say("user", f"{docs}\n\n{question}")],
    "behind": lambda docs, question: [say("user", f"{question}\n\n{docs}")],
    "parts": lambda docs, question: [say("user", [text(docs), text(question)])],
    "a message before": lambda docs, question: [say("user", docs), say("user", question)],
    "a message behind": lambda docs, question: [say("user", question), say("user", docs)],
    "system message": lambda docs, question: [say("user", question), say("system", docs)],
}


def words(number: int, length: int) -> str:
    """Some text of so many characters, another for each number."""
    return (f"Passage {number} says that this is so. " * (length // 24 + 1))[:length]


def retrieved(
    place: Place,
    turns: int = 6,
    *,
    docs: int = 6_000,
    answer: int = 400,
    steps: int = 0,
    found: int = 0,
    same: bool = False,
    greeted: bool = True,
) -> Iterator[tuple[list[Message], Message]]:
    """The requests of an agent that gives documents with its newest question alone, and replies."""
    history: list[Message] = [say("system", "You answer from what you are given.")]
    if greeted:
        history += [say("user", "Good morning."), say("assistant", LONG)]
    for number in range(turns):
        texts = f"<context>\n{words(0 if same else number, docs)}\n</context>"
        question = f"Question number {number}?"
        asked = place(texts, question)
        done: list[Message] = []
        for step in range(steps):
            name = f"call-{number}-{step}"
            yield [*history, *asked, *done], call(name)
            done += [call(name), result(name, words(turns * step + number, found))]
        reply = say("assistant", f"{number}: {words(number, answer)}")
        yield [*history, *asked, *done], reply
        history += [say("user", question), *done, reply]


def through(requests: Iterator[tuple[list[Message], Message]], **policy: Any) -> Wire:
    wire = Wire(**policy)
    for messages, reply in requests:
        wire.send(messages, reply)
    return wire


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("name", PLACES)
def test_documents_that_leave_with_each_question_are_let_go(name: str, same: bool) -> None:
    wire = through(retrieved(PLACES[name], same=same))
    asked = [messages for messages, _ in retrieved(PLACES[name], same=same)]
    assert [body["messages"] for body in wire.bodies] == asked
    breaks = wire.of(PrefixBroken)
    assert {event.cause for event in breaks} == {"text_moved"}
    assert [event.index for event in breaks] == [
        next(at for at, (one, other) in enumerate(zip(a, b, strict=False)) if one != other)
        for a, b in pairwise(asked)
    ]
    assert not wire.of(Edited)


def test_what_a_break_costs_is_what_stood_behind_the_documents() -> None:
    wire = through(retrieved(PLACES["in front"]))
    for event in wire.of(PrefixBroken):
        assert 60 < event.lost_tokens < 200, "a question and an answer, and no documents"


def test_the_first_message_of_all_is_let_go_too() -> None:
    wire = through(retrieved(PLACES["in front"], greeted=False))
    asked = [messages for messages, _ in retrieved(PLACES["in front"], greeted=False)]
    assert [body["messages"] for body in wire.bodies] == asked
    assert [(event.cause, event.index) for event in wire.of(PrefixBroken)] == [
        ("text_moved", 2 * at + 1) for at in range(5)
    ]


def test_documents_are_held_where_much_stands_behind_them() -> None:
    wire = through(retrieved(PLACES["in front"], 3, steps=4, found=4_000))
    assert all(kept(a, b) for a, b in pairwise(wire.bodies))
    assert not wire.of(PrefixBroken)
    assert {event.cause for event in wire.of(Edited)} == {"text_moved"}


def test_an_answer_that_is_long_enough_pays_for_documents() -> None:
    held, let_go = (
        through(retrieved(PLACES["in front"], 3, docs=2_000, answer=n)) for n in (4_200, 3_000)
    )
    assert all(kept(a, b) for a, b in pairwise(held.bodies))
    assert not any(kept(a, b) for a, b in pairwise(let_go.bodies))


def test_what_stands_in_front_of_documents_is_spared_by_nothing() -> None:
    """A long question is prefilled again only where the documents came before it."""
    question, texts = words(1, 8_000), f"<context>{words(2, 3_000)}</context>"
    newest = f"Next? {texts}"
    whole = second(say("user", f"{texts}\n{question}"), say("user", question), newest)
    assert kept(*whole.bodies)
    spared = second(say("user", f"{question}\n{texts}"), say("user", question), newest)
    assert not kept(*spared.bodies)
    assert spared.bodies[1]["messages"][1]["content"] == question


def test_a_reminder_beside_documents_goes_with_them() -> None:
    texts = f"{REMINDER}\n<context>{words(1, 3_000)}</context>"
    wire = second(say("user", f"Go.\n{texts}"), say("user", "Go."), f"On.\n{texts}")
    assert wire.bodies[1]["messages"][1]["content"] == "Go."


def test_a_clock_is_told_anew_where_its_note_goes_with_the_documents() -> None:
    wire = Wire()
    for number, (messages, reply) in enumerate(retrieved(PLACES["in front"], greeted=False)):
        messages[0] = say("system", f"You answer.\nCurrent time: 2026-11-30 12:0{number}:00")
        sent = wire.send(messages, reply)
        assert sent[0] == wire.bodies[0]["messages"][0]
        told = [m["content"] for m in sent if f"12:0{number}:00" in m["content"]]
        assert told == [sent[-1]["content"]]


def test_nothing_is_told_where_no_answer_stands_behind_what_went() -> None:
    """To go another way from the same place breaks nothing that is sent again."""
    texts = f"<context>{words(1, 3_000)}</context>"
    head, reply = say("system", "You help."), say("assistant", LONG)
    wire = Wire()
    wire.send([head, say("user", f"Go.\n{texts}")], reply)
    wire.send([head, say("user", "Go."), say("user", f"On.\n{texts}")], reply)
    assert wire.bodies[1]["messages"][1]["content"] == "Go."
    assert not wire.of(PrefixBroken)


agents = st.fixed_dictionaries(
    {
        "place": st.sampled_from(sorted(PLACES)),
        "docs": st.integers(0, 6_000),
        "answer": st.integers(0, 6_000),
        "steps": st.integers(0, 2),
        "found": st.integers(0, 1_500),
        "same": st.booleans(),
    }
)


def requests_of(agent: dict[str, Any]) -> Iterator[tuple[list[Message], Message]]:
    return retrieved(**{**agent, "place": PLACES[agent["place"]]}, turns=5)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(agents)
def test_held_text_lengthens_no_prompt_by_more_than_half(agent: dict[str, Any]) -> None:
    """Reminders apart; and where a prompt is not held, it is the agent's own, and is told."""
    wire = Wire(evict=None)
    before = 0
    for messages, reply in requests_of(agent):
        sent = wire.send(messages, reply)
        small = 600 * sum(message["role"] == "user" for message in messages)
        assert len(compact(sent)) <= 1.5 * len(compact(messages)) + small
        told, before = len(wire.of(PrefixBroken)) - before, len(wire.of(PrefixBroken))
        if len(wire.bodies) > 1:
            assert kept(*wire.bodies[-2:]) == (told == 0)
    assert {event.cause for event in wire.of(PrefixBroken)} <= {"text_moved"}


@settings(derandomize=True, deadline=None, max_examples=10)
@given(agents)
def test_another_process_holds_and_lets_go_the_same(
    tmp_path_factory: pytest.TempPathFactory, agent: dict[str, Any]
) -> None:
    path: Path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    one = through(requests_of(agent))
    for at, (messages, reply) in enumerate(requests_of(agent)):
        other = Wire(Engine(Policy(probe=False), store=path))
        other.send(messages, reply)
        assert other.raws == [one.raws[at]]
        other.engine.store.close()
