"""Does an agent hear of it when its prompt is too long for the server?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent import Bypassed, Edited, Hints, Overflowed, Policy, PrefixBroken, TurnFinished
from kvagent.backends import Server
from kvagent.limits import with_reply
from tests.backends.test_overflow import REFUSALS, Refusal
from tests.scripted import Scripted, Served, refused, tokens_of
from tests.wire import Message, call, compact, kept, result, say

GOOD = say("assistant", "There.")
TURNS = 24


def text(seed: int, lines: int = 24) -> str:
    """A tool's result of some 400 tokens."""
    return "\n".join(
        f"src/part_{seed}/file_{n}.py:{n * 7919 % 977}: value_{seed}_{n} = {n * seed * 31337 % 99991}"
        for n in range(lines)
    )


def history(turns: int = TURNS, lines: int = 24) -> list[Message]:
    messages = [say("system", "You help."), say("user", "Look through all parts.")]
    for turn in range(turns):
        name = f"call-{turn}"
        messages += [call(name, "read", {"path": f"part_{turn}"}), result(name, text(turn, lines))]
    return messages


HISTORY = history()
SIZE = tokens_of({"messages": HISTORY})


class Window:
    """A server with a window: it refuses longer prompts in the words of llama.cpp."""

    def __init__(self, window: int, scale: float = 1.0) -> None:
        self.window = window
        self.scale = scale
        self.refusals = 0

    def __call__(self, body: dict[str, Any]) -> Served:
        prompt = int(tokens_of(body) * self.scale)
        if prompt >= self.window:
            self.refusals += 1
            return refused(
                f"request ({prompt} tokens) exceeds the available context size ({self.window} "
                "tokens), try increasing it"
            )
        return Served(GOOD, {"prompt_tokens": prompt, "completion_tokens": 3})


# -- a refusal


# Of the wordings that name what the reply takes, and of the largest windows, others tell as much.
TOLD = [each for each in REFUSALS if not each.output and (each.window or 0) < 50_000]


@pytest.mark.parametrize("refusal", TOLD, ids=lambda refusal: refusal.wording)
def test_every_wording_is_answered_by_a_smaller_request(refusal: Refusal) -> None:
    scripted = Scripted()
    answers = [refused(refusal.message), Served(GOOD)]
    small = refusal.window is not None and refusal.window < 1_000
    turns = max(24, (refusal.window or 0) // 350)
    lines = 4 if small else 24
    served = scripted.send(history(turns, lines), lambda _: answers.pop(0))
    assert served.reply == GOOD
    first, second = scripted.raws
    assert len(second) < len(first)
    (told,) = scripted.of(Overflowed)
    assert (told.status, told.prompt_tokens, told.at_least, told.window, told.silent) == (
        400,
        refusal.prompt,
        refusal.at_least,
        refusal.window,
        False,
    )
    assert {edit.stage for edit in scripted.of(Edited)} & {"clear", "compact", "evict"}


def test_the_window_is_learned_for_later_turns_and_other_conversations() -> None:
    scripted, server = Scripted(window=4 * SIZE), Window(SIZE // 2)
    assert scripted.send(HISTORY, server).reply == GOOD
    assert server.refusals == 1
    more = [*HISTORY, GOOD, say("user", "Go on.")]
    assert scripted.send(more, server).reply == GOOD
    others = history(TURNS)
    others[1] = say("user", "Another task: count all values.")
    assert scripted.send(others, server).reply == GOOD
    assert server.refusals == 1
    assert all(event.window == SIZE // 2 for event in scripted.of(TurnFinished))


def test_another_model_has_a_window_of_its_own() -> None:
    scripted = Scripted()
    scripted.send(HISTORY, Window(SIZE // 2))
    before = len(scripted.bodies)
    scripted.send(HISTORY, Window(SIZE * 2), model="other")
    assert scripted.bodies[before:] == [{"messages": HISTORY, "model": "other"}]


def test_the_prefix_stays_after_a_refusal() -> None:
    scripted, server = Scripted(), Window(SIZE // 2)
    messages = list(HISTORY)
    for question in ("And?", "So?", "Well?"):
        assert scripted.send(messages, server).reply == GOOD
        messages += [GOOD, say("user", question)]
    assert server.refusals == 1
    assert all(kept(a, b) for a, b in zip(scripted.bodies[1:], scripted.bodies[2:], strict=False))


@pytest.mark.parametrize("scale", [0.8, 1.3, 2.0])
def test_a_tokenizer_that_counts_otherwise(scale: float) -> None:
    scripted, server = Scripted(), Window(int(SIZE * scale) // 2, scale)
    assert scripted.send(HISTORY, server).reply == GOOD
    assert server.refusals == 1


def test_a_wording_without_numbers_teaches_no_window() -> None:
    scripted = Scripted()
    answers = [refused("Context size has been exceeded.", 500), Served(GOOD)]
    assert scripted.send(HISTORY, lambda _: answers.pop(0)).reply == GOOD
    assert tokens_of(scripted.bodies[1]) <= 0.75 * SIZE
    others = history()
    others[1] = say("user", "Another task.")
    scripted.send(others)
    assert scripted.last == others


def test_a_second_refusal_reaches_the_caller_as_it_is_and_teaches_too() -> None:
    scripted = Scripted()
    served = scripted.send(HISTORY, lambda _: refused("Context size has been exceeded.", 500))
    assert (served.status, served.error) == (
        500,
        refused("Context size has been exceeded.", 500).error,
    )
    assert len(scripted.raws) == 2
    assert [event.status for event in scripted.of(Overflowed)] == [500, 500]
    scripted.send(HISTORY)  # as the SDK does after a 500
    assert len(scripted.raws) == 3
    assert len(scripted.raws[2]) < len(scripted.raws[1]) < len(scripted.raws[0])


def test_nothing_that_is_refused_is_kept_or_told_as_done() -> None:
    scripted = Scripted()
    served = scripted.send(HISTORY, lambda _: refused("Context size has been exceeded.", 500))
    assert served.status == 500
    assert scripted.engine.ledger.size == 0
    assert not scripted.of(Edited)
    assert not scripted.of(TurnFinished)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.wording)
@pytest.mark.parametrize("hints", [Hints(), Hints(id_slot="conversation", cache_prompt=True)])
def test_what_cannot_be_smaller_is_not_sent_again(refusal: Refusal, hints: Hints) -> None:
    scripted = Scripted(hints=hints)
    scripted.engine.server = Server(kind="llama.cpp", slots=4)
    served = scripted.send([say("user", "Hello there!")], lambda _: refused(refusal.message))
    assert served.error == refused(refusal.message).error
    assert len(scripted.raws) == 1
    assert len(scripted.of(Overflowed)) == 1


@pytest.mark.parametrize("mode", ["observe", "safe"])
def test_only_full_mode_sends_a_second_request(mode: str) -> None:
    scripted = Scripted(mode=mode)
    served = scripted.send(HISTORY, Window(SIZE // 2))
    assert served.status == 400
    assert scripted.bodies == [{"messages": HISTORY, "model": "m"}]
    assert len(scripted.of(Overflowed)) == 1


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_other_errors_are_let_through(status: int) -> None:
    scripted = Scripted()
    error = refused("The server is on fire.", status)
    assert scripted.send(HISTORY, error).error == error.error
    assert len(scripted.raws) == 1
    assert not scripted.of(Overflowed)


def test_a_refusal_that_cannot_be_understood_reaches_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("broken")

    scripted = Scripted()
    monkeypatch.setattr("kvagent.engine.overflow_of", fail)
    assert scripted.send(HISTORY, Window(SIZE // 2)).status == 400
    assert len(scripted.raws) == 1


def test_what_the_user_pasted_goes_when_nothing_else_is_left() -> None:
    """But neither the first nor the newest user message."""
    long = "\n".join(text(n) for n in range(8))
    messages = [
        say("system", "You help."),
        say("user", "First."),
        say("assistant", "Yes?"),
        say("user", long),
        say("assistant", "I see."),
        say("user", "And now?"),
    ]
    server = Window(tokens_of({"messages": messages}) * 2 // 3)
    scripted = Scripted()
    assert scripted.send(messages, server).reply == GOOD
    assert scripted.last[1]["content"].startswith("First.")
    assert scripted.last[-1] == messages[-1]


# -- within a stream


def test_a_stream_that_breaks_off_is_smaller_when_it_is_tried_again() -> None:
    scripted = Scripted()
    error = {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}
    scripted.send(HISTORY, Served(say("assistant", "The"), stream_error=error), stream=True)
    (told,) = scripted.of(Overflowed)
    assert (told.status, told.silent) == (200, False)
    scripted.send(HISTORY, GOOD, stream=True)
    first, second = scripted.bodies
    assert tokens_of(second) <= 0.75 * tokens_of(first)
    scripted.send([*HISTORY, GOOD, say("user", "And?")], stream=True)
    assert kept(second, scripted.bodies[-1])


def test_another_error_within_a_stream_teaches_nothing() -> None:
    scripted = Scripted()
    scripted.send(HISTORY, Served(say("assistant", "The"), stream_error={"message": "gone"}))
    scripted.send(HISTORY)
    assert scripted.bodies[0] == scripted.bodies[1]
    assert not scripted.of(Overflowed)


# -- room for the reply


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_the_reply_has_the_room_it_asks_for(key: str) -> None:
    """A server such as vLLM refuses what would not fit together."""
    window, reply = SIZE + 100, 2_000
    scripted = Scripted(window=window, evict=None)
    options: dict[str, Any] = {key: reply}
    scripted.send(HISTORY, **options)
    assert tokens_of(scripted.bodies[0]) + reply <= window
    scripted = Scripted(window=window + 2_500, evict=None)
    scripted.send(HISTORY, **options)
    assert scripted.last == HISTORY


class Counting(Window):
    """A server that counts what the reply may take, and refuses in the words of vLLM."""

    def __init__(self, window: int, key: str) -> None:
        super().__init__(window)
        self.key = key

    def __call__(self, body: dict[str, Any]) -> Served:
        prompt, reply = tokens_of(body), body[self.key]
        if prompt + reply > self.window:
            self.refusals += 1
            return refused(
                f"This model's maximum context length is {self.window} tokens. However, you "
                f"requested {reply} output tokens and your prompt contains {prompt} input tokens, "
                f"for a total of {prompt + reply} tokens. Please reduce the length."
            )
        return Served(GOOD, {"prompt_tokens": prompt, "completion_tokens": 3})


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.8, 1.0, 3.0])
def test_a_reply_that_is_counted_fits_as_well(share: float, key: str) -> None:
    """Half the window at most is left to it, and this from the first refusal on."""
    scripted, server = Scripted(), Counting(SIZE, key)
    options: dict[str, Any] = {key: int(share * SIZE)}
    messages = list(HISTORY)
    for question in ("And?", "So?", "Well?"):
        assert scripted.send(messages, server, **options).reply == GOOD
        messages += [GOOD, say("user", question)]
    assert server.refusals == 1
    assert scripted.bodies[0][key] == int(share * SIZE)
    assert all(body[key] == min(int(share * SIZE), SIZE // 2) for body in scripted.bodies[1:])
    assert not scripted.of(Bypassed)
    told = [edit for edit in scripted.of(Edited) if edit.stage == "reply"]
    assert len(told) == (3 if share > 0.5 else 0)


@pytest.mark.parametrize("mode", ["observe", "safe"])
def test_only_full_mode_asks_for_a_shorter_reply(mode: str) -> None:
    scripted, server = Scripted(mode=mode), Counting(SIZE, "max_tokens")
    for _ in range(2):
        assert scripted.send(HISTORY, server, max_tokens=SIZE).status == 400
    assert [body["max_tokens"] for body in scripted.bodies] == [SIZE, SIZE]


def test_a_server_that_counts_no_reply_is_asked_for_all_of_it() -> None:
    scripted = Scripted()
    scripted.send(HISTORY, Window(SIZE // 2), max_tokens=10 * SIZE)
    assert [body["max_tokens"] for body in scripted.bodies] == [10 * SIZE, 10 * SIZE]


@pytest.mark.parametrize(
    ("body", "limited"),
    [
        (b'{"max_tokens":900,"n":1}', b'{"max_tokens":50,"n":1}'),
        (b'{"max_tokens" : 900 }', b'{"max_tokens" : 50 }'),
        (b'{"max_tokens":50}', b'{"max_tokens":50}'),
        (b'{"max_tokens":null}', b'{"max_tokens":null}'),
        (b'{"n":1}', b'{"n":1}'),
        (
            b'{"messages":[{"role":"user","content":"\\"max_tokens\\":900"}],"max_tokens":900}',
            b'{"messages":[{"role":"user","content":"\\"max_tokens\\":900"}],"max_tokens":50}',
        ),
        (
            b'{"tools":[{"max_tokens":900}],"max_tokens":900}',
            b'{"tools":[{"max_tokens":900}],"max_tokens":900}',
        ),
        (
            b'{"tools":[{"max_tokens":9001}],"max_tokens":900}',
            b'{"tools":[{"max_tokens":9001}],"max_tokens":50}',
        ),
    ],
)
def test_only_what_is_asked_for_of_the_reply_is_changed(body: bytes, limited: bytes) -> None:
    assert with_reply(body, json.loads(body), 50) == limited
    assert with_reply(body, json.loads(body), None) == body


# -- a front cut off in silence


def cutting(window: int, scale: float = 1.0) -> Any:
    """A server that takes the end of a prompt that is too long."""

    def answer(body: dict[str, Any]) -> Served:
        prompt = min(int(tokens_of(body) * scale), window)
        return Served(GOOD, {"prompt_tokens": prompt, "completion_tokens": 3})

    return answer


def grown(scripted: Scripted, server: Any, turns: int, lines: int = 24) -> None:
    """An agent's conversation, one result after the other."""
    messages = history(0)
    for turn in range(turns):
        name = f"call-{turn}"
        messages += [call(name, "read", {"path": f"part_{turn}"}), result(name, text(turn, lines))]
        scripted.send(messages, server)
        messages = [*messages, GOOD, say("user", "Go on.")]


@pytest.mark.parametrize("scale", [0.7, 1.0, 1.4])
def test_a_front_that_is_cut_off_is_noticed(scale: float) -> None:
    scripted = Scripted(window=1_000_000)
    grown(scripted, cutting(4_096, scale), 40)
    first, *more = scripted.of(Overflowed)
    assert (first.silent, first.status, first.window) == (True, 200, 4_096)
    assert first.prompt_tokens is not None
    assert first.prompt_tokens > 4_096
    assert not more, "from then on prompts fit"
    assert max(map(tokens_of, scripted.bodies[-8:])) * scale <= 4_096


def test_a_front_cut_off_from_the_first_request_on() -> None:
    scripted = Scripted(window=1_000_000)
    scripted.send(HISTORY, cutting(2_048))
    (told,) = scripted.of(Overflowed)
    assert told.silent


@pytest.mark.parametrize("scale", [0.6, 0.8, 1.0, 1.5, 2.5])
def test_whoever_counts_otherwise_is_not_suspected(scale: float) -> None:
    scripted = Scripted()
    grown(scripted, cutting(10**9, scale), 20)
    assert not scripted.of(Overflowed)


def test_old_reasoning_that_a_template_drops_is_no_cut() -> None:
    """Nearly all of a prompt may be reasoning, and gone with the next question of the user."""
    scripted = Scripted()

    def server(body: dict[str, Any]) -> Served:
        last = max(n for n, m in enumerate(body["messages"]) if m["role"] == "user")
        prompt = tokens_of(body) + sum(
            len(m.get("reasoning_content") or "") // 4 for m in body["messages"][last:]
        )
        return Served(GOOD, {"prompt_tokens": prompt, "completion_tokens": 500})

    messages = [say("system", text(0)), say("user", "Think.")]
    for turn in range(12):
        name = f"call-{turn}"
        thought = {"reasoning_content": text(turn, 120)}
        messages += [{**call(name), **thought}, result(name, text(turn, 10))]
        scripted.send(messages, server)
    scripted.send([*messages, {**GOOD}, say("user", "Thanks. And now?")], server)
    assert not scripted.of(Overflowed)


def test_pictures_are_no_cut() -> None:
    """Their bytes are many, their tokens few."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}}
    messages: list[Message] = []
    scripted = Scripted()
    for turn in range(1, 14):
        messages += [say("user", [{"type": "text", "text": "What is this?"}, picture])]
        scripted.send(messages, Served(GOOD, {"prompt_tokens": 300 * turn}))
        messages += [GOOD]
    assert not scripted.of(Overflowed)


def test_tools_that_a_template_leaves_out_are_no_cut() -> None:
    parameters = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(200)}}
    tools = [
        {"type": "function", "function": {"name": f"t{n}", "parameters": parameters}}
        for n in range(10)
    ]
    scripted = Scripted()
    messages = [say("system", text(0, 90)), say("user", "Hello.")]
    prompt = tokens_of({"messages": messages})
    scripted.send(messages, Served(GOOD, {"prompt_tokens": prompt}), tools=tools)
    assert not scripted.of(Overflowed)


def test_a_server_that_takes_more_than_was_believed_has_a_larger_window() -> None:
    scripted = Scripted(clear=None, compact=None, evict=None)
    scripted.send(HISTORY, Window(SIZE // 2))
    scripted.send(HISTORY, Window(SIZE * 2))
    scripted.send([*HISTORY, GOOD, say("user", "And?")], Window(SIZE * 2))
    assert scripted.of(TurnFinished)[-1].window is None


def test_events_hold_no_prompt() -> None:
    scripted = Scripted()
    scripted.send(HISTORY, Window(SIZE // 2))
    assert "value_1_1" not in compact([repr(event) for event in scripted.events])


def test_the_policy_decides_where_it_is_stricter() -> None:
    scripted, server = Scripted(window=SIZE // 3), Window(SIZE // 2)
    scripted.send(HISTORY, server)
    assert server.refusals == 0
    assert tokens_of(scripted.bodies[0]) <= Policy().room(SIZE // 3)
    assert json.loads(scripted.raws[0])["model"] == "m"


# -- any session


STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "read", "write", "many", "say"]), st.integers(0, 120)),
    min_size=1,
    max_size=30,
)


def taken(number: int, step: tuple[str, int]) -> list[Message]:
    """What an agent adds in one turn."""
    kind, lines = step
    words = text(number, lines)
    if kind == "ask":
        return [say("user", f"Question {number}?")]
    if kind == "say":
        return [say("assistant", f"Thought {number}. {words}"), say("user", "Go on.")]
    if kind == "write":
        asked = call(f"c{number}", "write", {"path": f"{number}.py", "content": words})
        return [asked, result(f"c{number}", "done")]
    if kind == "read":
        return [call(f"c{number}", "read", {"path": f"{number}.py"}), result(f"c{number}", words)]
    calls = [call(f"c{number}.{n}", "read")["tool_calls"][0] for n in range(3)]
    results = [result(f"c{number}.{n}", text(number + n, lines // 2)) for n in range(3)]
    return [say("assistant", None, tool_calls=calls), *results]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    STEPS,
    st.integers(3_000, 9_000),
    st.sampled_from([0.7, 1.0, 1.3]),
    st.sampled_from([None, 0.5, 4.0]),
)
def test_no_session_of_an_agent_hears_of_it(
    steps: list[tuple[str, int]], window: int, scale: float, reported: float | None
) -> None:
    believed = None if reported is None else int(window * reported)
    scripted, server = Scripted(window=believed), Window(window, scale)
    messages = [say("system", "You help."), say("user", "Begin.")]
    for number, step in enumerate(steps):
        messages = [*messages, *taken(number, step)]
        assert scripted.send(messages, server).reply == GOOD
        messages = [*messages, GOOD, say("user", f"And {number}?")]
    assert not scripted.of(Bypassed)
    assert not scripted.of(PrefixBroken)
    assert server.refusals <= 3
