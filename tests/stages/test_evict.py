"""Are long tool results shortened on arrival, and only those, and can they be had back?"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kvagent import Edited, Evict, Fraction, PrefixBroken, Tokens
from kvagent.tokens import count_tokens
from kvagent.volatile import NOTE
from tests.wire import Message, Wire, call, compact, kept, result, say

LOG = "\n".join(
    f"2026-11-30 04:{n // 60 % 60:02}:{n % 60:02} worker {n} handled job {n * 7919 % 100_003}"
    for n in range(1_200)
)
NEEDLE = "ERROR: disk /dev/sdq1 is full, job 424242 was lost (see ticket OPS-31337)"
LONG = LOG[: len(LOG) // 2] + f"\n{NEEDLE}\n" + LOG[len(LOG) // 2 :]
HANDLE = re.compile(r"kept as (\w+)")


def history(content: Any, name: str = "run", **arguments: Any) -> list[Message]:
    return [
        say("system", "You help."),
        say("user", "Look."),
        call("call-1", name, arguments),
        result("call-1", content),
    ]


def evicted(content: Any, wire: Wire | None = None, **request: Any) -> tuple[Wire, Any]:
    wire = wire or Wire()
    return wire, wire.send(history(content, **request))[3]["content"]


def test_a_long_result_is_shortened_and_says_so() -> None:
    wire, content = evicted(LONG)
    first = content.split("\n")[0]
    assert re.fullmatch(r"\[kvagent: \d+ of 1202 lines shown; all of it is kept as r\w+\]", first)
    assert count_tokens(content) <= 1_100
    assert LOG.split("\n")[0] in content
    assert LOG.split("\n")[-1] in content
    edit = wire.of(Edited)[0]
    assert (edit.stage, edit.cause, edit.index) == ("evict", "result_too_long", 3)
    assert edit.saved_tokens == count_tokens(LONG) - count_tokens(content)
    assert HANDLE.search(content)[1] in edit.detail  # type: ignore[index]
    assert "handled" not in edit.detail


def test_errors_and_what_they_name_are_kept() -> None:
    _, content = evicted(LONG)
    assert NEEDLE in content


@pytest.mark.parametrize(
    "text", [LONG, "日本語の行 🙂\n" * 4_000, "a\r\nb\0\x1b[31mred\x1b[0m\n" * 3_000]
)
def test_the_original_can_be_had_back_to_the_byte(text: str) -> None:
    wire, content = evicted(text)
    handle = HANDLE.search(content)
    assert handle is not None
    assert wire.engine.recall(handle[1]) == text


def test_an_unknown_handle_says_what_may_have_happened() -> None:
    with pytest.raises(KeyError, match="keeps no original under 'r0'"):
        Wire().engine.recall("r0")


def test_another_namespace_does_not_get_it() -> None:
    wire, content = evicted(LONG)
    handle = HANDLE.search(content)
    assert handle is not None
    with pytest.raises(KeyError):
        wire.engine.recall(handle[1], namespace="other")


def test_what_fits_is_left_alone() -> None:
    text = "\n".join(LOG.split("\n")[:60])
    assert 1_000 < count_tokens(text) < 2_500
    wire, content = evicted(text)
    assert content == text
    assert not wire.of(Edited)


@pytest.mark.parametrize("content", ["", None, [], [{"type": "text", "text": ""}]])
def test_results_without_text_are_left_alone(content: Any) -> None:
    wire, sent = evicted(content)
    assert sent == content
    assert not wire.of(Edited)


def test_text_parts_become_one() -> None:
    half = len(LONG) // 2
    parts = [{"type": "text", "text": LONG[:half]}, {"type": "text", "text": LONG[half:]}]
    wire, content = evicted(parts)
    assert [part["type"] for part in content] == ["text"]
    handle = HANDLE.search(content[0]["text"])
    assert handle is not None
    assert wire.engine.recall(handle[1]) == f"{LONG[:half]}\n{LONG[half:]}"


def test_a_result_with_an_image_is_left_alone() -> None:
    parts = [{"type": "text", "text": LONG}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    wire, content = evicted(parts)
    assert content == parts
    assert not wire.of(Edited)


def test_only_results_are_shortened() -> None:
    wire = Wire()
    messages = [say("system", LONG), say("user", LONG), say("assistant", LONG), say("user", "?")]
    assert wire.send(messages) == messages


@pytest.mark.parametrize(
    "arguments",
    [
        {"offset": 100},
        {"limit": 50},
        {"start_line": 1, "end_line": 900},
        {"view_range": [1, 900]},
        {"path": "x", "lines": "1-900"},
    ],
)
def test_a_range_that_was_asked_for_is_not_shortened(arguments: dict[str, Any]) -> None:
    _, content = evicted(LONG, **arguments)
    assert content == LONG


@pytest.mark.parametrize(
    "arguments", [{"offset": None}, {"offset": 0}, {"lines": ""}, {"path": "x"}]
)
def test_an_empty_range_is_none(arguments: dict[str, Any]) -> None:
    _, content = evicted(LONG, **arguments)
    assert content != LONG


@pytest.mark.parametrize("arguments", ["", "not json", "[1]", '"offset"', "{}"])
def test_arguments_of_any_kind_are_read(arguments: str) -> None:
    wire = Wire()
    messages = history(LONG)
    messages[2] = call("call-1", "run", arguments)
    assert wire.send(messages)[3]["content"] != LONG


@pytest.mark.parametrize("name", ["kvagent_recall", "precious"])
def test_excluded_tools_keep_their_results(name: str) -> None:
    wire = Wire(evict=Evict(exclude_tools=("kvagent_recall", "precious")))
    assert evicted(LONG, wire, name=name)[1] == LONG
    assert evicted(LONG, wire, name="other")[1] != LONG


def test_a_result_whose_call_is_gone_is_shortened() -> None:
    wire = Wire()
    messages = [say("user", "Look."), result("nowhere", LONG)]
    assert wire.send(messages)[1]["content"] != LONG


def test_the_range_of_the_right_call_counts_among_parallel_ones() -> None:
    calls = [
        call("call-1", "read", {"offset": 5})["tool_calls"][0],
        call("call-2", "read", {"path": "x"})["tool_calls"][0],
    ]
    messages = [
        say("user", "Look."),
        say("assistant", None, tool_calls=calls),
        result("call-1", LONG),
        result("call-2", LONG),
    ]
    sent = Wire().send(messages)
    assert sent[2]["content"] == LONG
    assert sent[3]["content"] != LONG
    assert [message.get("tool_call_id") for message in sent[2:]] == ["call-1", "call-2"]


def test_a_fraction_of_the_window_is_a_trigger() -> None:
    small = Wire(window=8_000, evict=Evict(trigger=Fraction(0.5), keep=400))
    large = Wire(window=500_000, evict=Evict(trigger=Fraction(0.5), keep=400))
    unknown = Wire(evict=Evict(trigger=Fraction(0.5), keep=400))
    assert count_tokens(evicted(LONG, small)[1]) <= 450
    assert evicted(LONG, large)[1] == LONG
    assert evicted(LONG, unknown)[1] == LONG


def test_keep_above_the_trigger_wins() -> None:
    tokens = count_tokens(LONG)
    wire = Wire(evict=Evict(trigger=Tokens(100), keep=tokens))
    assert evicted(LONG, wire)[1] == LONG


def test_what_was_shortened_once_stays_so() -> None:
    """Whatever form it comes back in, and in another engine too: nothing is decided twice."""
    wire = Wire()
    messages = history(LONG)
    wire.send(messages, say("assistant", "I see."))
    more = [*messages, say("assistant", "I see."), say("user", "And?")]
    wire.send(more, say("assistant", "Well."))
    parts = [{"type": "text", "text": LONG}]
    other = [
        *more[:3],
        result("call-1", parts),
        *more[4:],
        say("assistant", "Well."),
        say("user", "So?"),
    ]
    wire.send(other, dump=json.dumps)
    assert all(kept(a, b) for a, b in zip(wire.bodies, wire.bodies[1:], strict=False))
    assert [event.stage for event in wire.of(Edited)].count("evict") == 1
    assert not wire.of(PrefixBroken)
    again = Wire()
    again.send(more)
    assert compact(again.bodies[0]) == compact(wire.bodies[1])


def test_a_shortened_result_that_comes_back_is_not_shortened_again() -> None:
    _, content = evicted(LONG)
    small = Wire(evict=Evict(trigger=Tokens(200), keep=200))
    assert evicted(content, small)[1] == content


def test_a_json_result_in_another_form_is_replayed() -> None:
    rows = [{"id": n, "name": f"row {n}", "size": n * n} for n in range(900)]
    wire = Wire()
    wire.send(history(json.dumps(rows)), say("assistant", "I see."))
    back = [*history(compact(rows)), say("assistant", "I see."), say("user", "And?")]
    wire.send(back)
    assert kept(wire.bodies[0], wire.bodies[1])
    assert not wire.of(PrefixBroken)


def test_a_note_behind_a_shortened_result_is_whole() -> None:
    wire = Wire()
    messages = history(LONG)
    messages[0] = say("system", "You help.\nCurrent time: 2026-11-30 04:12:34")
    sent = wire.send(messages)[3]["content"]
    assert sent.endswith(f"\n\n{NOTE}Current time: 2026-11-30 04:12:34")
    handle = HANDLE.search(sent)
    assert handle is not None
    assert wire.engine.recall(handle[1]) == LONG
    parts = Wire().send([*messages[:3], result("call-1", [{"type": "text", "text": LONG}])])
    assert parts[3]["content"][-1]["text"] == f"{NOTE}Current time: 2026-11-30 04:12:34"


@pytest.mark.parametrize("policy", [{"evict": None}, {"mode": "safe"}])
def test_switched_off_and_in_safe_mode_results_go_out_whole(policy: dict[str, Any]) -> None:
    wire, content = evicted(LONG, Wire(**policy))
    assert content == LONG
    assert not wire.of(Edited)


def test_observe_mode_says_what_it_would_save() -> None:
    wire, content = evicted(LONG, Wire(mode="observe"))
    assert content == LONG
    edit = wire.of(Edited)[0]
    assert (edit.stage, edit.applied) == ("evict", False)
    assert edit.saved_tokens > 5_000
