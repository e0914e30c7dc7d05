"""Is each request counted as it should be?"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent.audit.conversations import Placed
from kvagent.audit.formats import read
from kvagent.audit.prediction import Target
from kvagent.audit.prompts import Estimated, Tokens
from kvagent.audit.rendered import Exact
from kvagent.audit.transcript import Hashed, Item, Place, Reported, Request, Unreadable
from kvagent.audit.turns import Analysis, Totals, Traced, Turn, totals
from tests.audit.logs import (
    SYSTEM,
    TOOLS,
    Message,
    call,
    interleaved,
    reply,
    request,
    result,
    session,
    user,
)
from tests.audit.test_rendered import model
from tests.tokens.toy_templates import Toy

LONG = {**SYSTEM, "content": SYSTEM["content"] * 40}


def turns(*prompts: list[Message], **more: Any) -> list[Turn]:
    analysis = Analysis(target=Target(block_size=1))
    return [analysis.turn(request(prompt, **more)) for prompt in prompts]


@settings(deadline=None)
@given(interleaved())
def test_the_parts_are_all_and_nothing_is_wasted(mixed: list[tuple[int, list[Message]]]) -> None:
    """In conversations that only grow a cache without an end gives all but what is new."""
    analysis = Analysis(target=Target(block_size=1))
    last: dict[int, Turn] = {}
    for number, prompt in mixed:
        turn = analysis.turn(request(prompt, tools=TOOLS))
        parts = turn.parts
        assert parts.head + parts.user + parts.assistant + parts.tool == turn.prompt_tokens
        assert not turn.exact
        assert turn.wasted_tokens == 0
        assert turn.predicted_tokens is not None
        assert turn.predicted_tokens <= turn.reusable_tokens <= turn.prompt_tokens
        if number in last:
            before = last[number]
            assert turn.growth == turn.prompt_tokens - before.prompt_tokens
            assert turn.reusable_tokens >= before.prompt_tokens - 4
            assert turn.differences == ()
        else:
            assert turn.growth is None
        last[number] = turn


def test_a_clock_in_the_head_wastes_all_behind_it() -> None:
    clock = [{**LONG, "content": f"It is {hour}. {LONG['content']}"} for hour in ("noon", "late")]
    prompts = session("a", 2, 0)
    found = turns([clock[0], *prompts[0][1:]], [clock[1], *prompts[1][1:]])
    assert found[1].placed.head_changed
    assert [each.cause for each in found[1].differences] == ["system_changed"]
    assert found[1].differences[0].character == len("It is ")
    assert found[1].reusable_tokens < 10
    again = found[0].prompt_tokens
    assert 0.9 * again < found[1].wasted_tokens < again


def test_a_result_replaced_wastes_what_stands_behind_it() -> None:
    messages = [LONG, user("Look."), call("read", "1"), result("text " * 300, "1")]
    messages += [call("read", "2"), result("word " * 500, "2"), reply("There it is, I think.")]
    stub = list(messages)
    stub[3] = {**stub[3], "content": "[removed]"}
    found = turns(messages, [*stub, user("go on")])
    assert found[1].kind == "changed"
    assert 500 < found[1].wasted_tokens < 560
    (difference,) = found[1].differences
    assert (difference.index, difference.field, difference.character) == (3, "content", 0)


def test_bytes_of_kv() -> None:
    analysis = Analysis(kv_bytes=lambda tokens: tokens * 1_000)
    turn = analysis.turn(request([user("hi")], reported=Reported(10, 0, 7)))
    assert turn.kv_bytes == (turn.prompt_tokens + 7) * 1_000
    assert turns([user("hi")])[0].kv_bytes is None


def test_llamacpp_with_one_slot_and_two_conversations() -> None:
    """Without a host cache, each takes the slot from the other."""
    from kvagent.backends.simulation import Settings

    target = Target("llama.cpp", slots=1, settings=Settings(host_cache_mib=0))
    analysis = Analysis(target=target)
    one = [[user("a" * 200 + " one"), *more] for more in ([], [reply("yes, sir"), user("on")])]
    two = [[user("b" * 200 + " two"), *more] for more in ([], [reply("no, sir"), user("on")])]
    found = [
        analysis.turn(request(prompt)) for pair in zip(one, two, strict=True) for prompt in pair
    ]
    assert [turn.conversation for turn in found] == [0, 1, 0, 1]
    assert found[2].reusable_tokens >= found[0].prompt_tokens - 4
    assert (found[2].predicted_tokens or 0) < 10
    assert found[2].loss == "slot"


def test_all_that_a_transcript_may_hold() -> None:
    unread = Unreadable(Place("x", 2), "is no JSON")
    traced = Hashed(Place("x", 3), (1, 2), 64, 130)
    found = list(Analysis().turns([request([user("hi")]), unread, traced, traced]))
    assert isinstance(found[0], Turn)
    assert found[1] is unread
    assert isinstance(found[3], Traced)
    assert (found[3].predicted_tokens, found[3].full_tokens) == (128, 128)
    sums = totals([each for each in found if not isinstance(each, Unreadable)])
    assert (sums.requests, sums.exact) == (3, False)
    assert sums.predicted_tokens == 128
    assert sums.reported_hit_rate is None


@pytest.mark.parametrize("is_held", [True, False])
def test_what_the_template_changed_is_shown_also_where_the_text_before_is_not_held(
    is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three conversations in turn, whose reasoning the template drops once a question follows."""
    if not is_held:
        monkeypatch.setattr("kvagent.audit.rendered._TEXTS", 0)
    made = model(Toy(reasoning="loop").source())
    analysis = Analysis(Exact(made))
    first, second = [], []
    for task in ("Mend the clock.", "Who lives in Rome?", "Count all the ships"):
        thought = {**call("read", task), "content": task, "reasoning_content": f"{task} Well. " * 9}
        asked = [user(task), thought, result(f"{task} " * 9, task)]
        first.append(request(asked))
        second.append(request([*asked, reply("so it is"), user("go on")]))
    found = [analysis.turn(each) for each in (*first, *second)]
    for turn, prompt in zip(found[3:], second, strict=True):
        (difference,) = turn.differences
        assert difference.cause == "template"
        text = made.prompt({"messages": list(prompt.messages)})
        assert text[difference.character - difference.offset :].startswith(difference.after)
        assert "Well." in difference.before
        assert "Well." not in difference.after


class Asked(Estimated):
    """Notes what it was told, and what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Placed] = []
        self.asked = 0

    def ahead(self, placed: Sequence[Placed]) -> None:
        self.told += placed

    def tokens(self, placed: Placed) -> Tokens:
        assert placed is self.told[self.asked]
        self.asked += 1
        return super().tokens(placed)


@settings(deadline=None)
@given(st.lists(st.integers(0, 170), max_size=4), st.booleans())
def test_requests_are_counted_in_their_order_behind_those_told_ahead(
    runs: list[int], ends_unread: bool
) -> None:
    items: list[Item] = []
    for run in runs:
        items += [request([user(f"question {len(items) + number}")]) for number in range(run)]
        items.append(Unreadable(Place("x", len(items)), "is no JSON"))
    items = items if ends_unread else items[:-1]
    prompts = Asked()
    found = Analysis(prompts).turns(items)
    come = [each.request if isinstance(each, Turn) else each for each in found]
    assert all(one is other for one, other in zip(come, items, strict=True))
    assert prompts.asked == len(prompts.told) == sum(isinstance(each, Request) for each in items)


# As the list of the recorded data says, to what the makers reported.
REPORTED = {
    "claudecode_3fe1b6bc.jsonl": (67, 0.7497),
    "claudecode_196820da.jsonl": (47, 0.6336),
    "codex_rollout_019e1625.jsonl": (66, 0.8140),
    "pi_before-compaction.jsonl": (471, 0.9700),
}


@pytest.mark.parametrize("name", sorted(REPORTED))
def test_what_makers_reported(name: str, shared: Path) -> None:
    sums = Totals()
    for turn in Analysis().turns(read(shared / "data" / name)):
        assert isinstance(turn, Turn)
        sums.add(turn)
    assert sums.reported_hit_rate is not None
    assert (sums.reported_requests, round(sums.reported_hit_rate, 4)) == REPORTED[name]


@pytest.mark.parametrize(
    ("name", "causes", "wasted"),
    [
        ("requests", {"system_changed": 7, "tools_reordered": 5}, range(70_000, 80_000)),
        ("requests_clean", {}, range(1)),
        ("requests_keyorder", {"schema_key_order": 7}, range(11_000, 14_000)),
        ("requests_long", {}, range(1)),
    ],
)
def test_as_a_meter_that_shares_no_code(
    name: str, causes: dict[str, int], wasted: range, shared: Path
) -> None:
    """The very tokens of each prompt, and the hit rate of vLLM's blocks."""
    from kvagent.tokens.model import Model

    folder = Path(os.environ.get("KVLAB") or Path.home() / ".cache" / "kvlab")
    python = folder / "venv" / "bin" / "python"
    if not python.exists() or not (folder / "qwen" / "tokenizer.json").exists():
        pytest.skip(f"the meter needs {folder}: run measure/setup.sh of the shared folder")
    recording = shared / "cases" / f"{name}.jsonl"
    done = subprocess.run(
        [str(python), str(shared / "measure" / "meter.py"), str(recording), "--json"],
        env={**os.environ, "KVLAB": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout)
    template = shared / "data" / "chat_templates" / "Qwen-Qwen2.5-7B-Instruct.jinja"
    prompts = Exact(Model.from_folder(folder / "qwen", template.read_text()))
    found = [turn for turn in Analysis(prompts).turns(read(recording)) if isinstance(turn, Turn)]
    sums = totals(found)
    assert [turn.prompt_tokens for turn in found] == [row["tokens"] for row in figures["rows"]]
    assert [turn.predicted_tokens for turn in found] == [row["cached"] for row in figures["rows"]]
    assert sums.hit_rate is not None
    assert abs(100 * sums.hit_rate - figures["hit"]) <= 0.1
    assert sums.exact
    assert dict(sums.breaks) == causes
    assert sums.wasted_tokens in wasted


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("content", "role", "text", "type", "id", "function", "arguments", "name", "x")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
ODD = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(("system", "user", "assistant", "tool", "x")) | VALUES,
        "content": VALUES,
        "tool_calls": VALUES | st.lists(VALUES, max_size=2),
        "tool_call_id": VALUES,
        "function_call": VALUES,
        "reasoning_content": VALUES,
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.lists(ODD, max_size=4), st.lists(ODD, max_size=2)), max_size=4))
def test_whatever_a_transcript_holds_is_counted(
    log: list[tuple[list[Any], list[Any]]],
) -> None:
    analysis = Analysis()
    sent: list[Any] = []
    for messages, others in log:
        sent = [*sent, *messages]
        options = {"chat_template_kwargs": others}
        turn = analysis.turn(request(sent, tools=others, replies=others, options=options))
        assert turn.prompt_tokens >= turn.reusable_tokens
        parts = turn.parts
        assert parts.head + parts.user + parts.assistant + parts.tool == turn.prompt_tokens
        if sent:
            changed = [{**sent[0], "content": "otherwise"}, *sent[1:]]
            analysis.turn(request(changed, tools=others[:1]))


def test_a_long_text_without_blanks_takes_no_time_without_end() -> None:
    turn = turns([user("a" * 2_000_000)])[0]
    assert turn.prompt_tokens > 100_000


def test_no_text_and_an_empty_one_break_nothing() -> None:
    """Two forms of one message that every template renders alike: a difference, and no break."""
    asked = [SYSTEM, user("Read a.py, please."), call("read", "call_1"), result("x = 1", "call_1")]
    null = [{**message, "content": message["content"] or None} for message in asked]
    analysis = Analysis()
    analysis.turn(request(asked))
    turn = analysis.turn(request([*null, reply("It sets x."), user("And b.py?")], 2))
    assert turn.differences
    assert not turn.breaks
    assert turn.wasted_tokens == 0
    assert totals([turn]).breaks == {}
