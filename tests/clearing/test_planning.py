"""What do the messages become when the prompt must get smaller?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from kvagent.chat import text_of
from kvagent.clearing import clearable
from kvagent.standing import Standing
from kvagent.volatile import NOTE
from tests.clearing.prompts import (
    Message,
    Store,
    after,
    log,
    planned,
    reply,
    result,
    stand,
    tokens,
    user,
    weigh,
)


def conversation() -> list[Message]:
    """Long texts of every kind."""
    return [
        user(f"Mend the parser.\n{log(90)}"),
        reply("I read both.", ("a", "read", {"path": "x.py"}), ("b", "run", {"cmd": "make"})),
        result("a", log(1)),
        result("b", log(2)),
        user(f"And see this.\n{log(91)}"),
        reply(f"A plan.\n{log(3)}", ("c", "write", {"path": "y.py", "content": log(4)})),
        result("c", log(5)),
        reply(f"More.\n{log(6)}", ("d", "read", {"path": "z.py"})),
        result("d", log(7)),
        user(f"Go on.\n{log(92)}"),
    ]


ALL = 10**6


def reasons(free: int, **options: Any) -> dict[int, str]:
    return {one.index: one.reason for one in planned(stand(conversation()), free, **options)}


def test_what_is_cleared_and_why() -> None:
    assert reasons(ALL) == {3: "age", 4: "age", 6: "assistant_text", 7: "age"}


def test_the_newest_results_are_kept() -> None:
    assert reasons(ALL, keep=0).keys() == {3, 4, 6, 7, 9}
    assert reasons(ALL, keep=3).keys() == {3, 6}
    assert reasons(ALL, keep=9).keys() == {6}


def test_tools_that_are_excluded() -> None:
    assert reasons(ALL, keep=0, exclude_tools=("read",)).keys() == {4, 6, 7}


def test_arguments_only_where_that_is_wanted() -> None:
    standing = stand(conversation())
    with_them, without = (
        {one.index: one.message for one in planned(standing, ALL, clear_tool_inputs=wanted)}[6]
        for wanted in (True, False)
    )
    assert json.loads(with_them["tool_calls"][0]["function"]["arguments"])["content"] != log(4)
    assert without["tool_calls"] == standing[5].came["tool_calls"]


def test_arguments_alone_are_their_own_reason() -> None:
    messages = [
        user("go"),
        reply("", ("a", "write", {"path": "y.py", "content": log(4)})),
        result("a", "done"),
        reply("", ("b", "read", {"path": "x.py"})),
        result("b", "read"),
    ]
    (one,) = planned(stand(messages), ALL)
    assert (one.index, one.reason) == (2, "arguments")


def test_nothing_is_cleared_where_nothing_is_to_be_freed_or_can_be() -> None:
    assert planned([], ALL) == []
    assert planned(stand([user(log(1))]), ALL) == []
    short = [user("go"), reply("", ("a", "run", {})), result("a", "fine"), reply("done")]
    assert planned(stand(short), ALL, keep=0) == []


def test_no_more_than_needed_goes() -> None:
    standing = stand(conversation())
    before = tokens(standing)
    for free in (300, 800, 1500):
        freed = before - tokens(after(standing, planned(standing, free, keep=0)))
        assert free <= freed < free + 300


def test_the_user_comes_last_and_only_what_must_go() -> None:
    standing = stand(conversation())
    most = clearable(standing, keep=1, exclude_tools=(), clear_tool_inputs=True)
    assert reasons(ALL, must=most).keys() == {3, 4, 6, 7}
    assert reasons(ALL, must=most + 100).keys() == {3, 4, 5, 6, 7}
    assert reasons(ALL, must=most + 800).keys() == {3, 4, 5, 6, 7, 8}
    assert reasons(ALL, must=ALL).keys() == {3, 4, 5, 6, 7, 8, 9}
    assert reasons(ALL, must=ALL)[5] == "user_text"


def test_clearable_is_what_a_plan_frees_at_most() -> None:
    standing = stand(conversation())
    options: dict[str, Any] = {"keep": 1, "exclude_tools": (), "clear_tool_inputs": True}
    most = clearable(standing, **options)
    freed = tokens(standing) - tokens(after(standing, planned(standing, most, **options)))
    assert most - 20 * 7 <= freed <= most + 20 * 7


def test_originals_can_be_had_back() -> None:
    store = Store()
    cleared = planned(stand(conversation()), ALL, store=store)
    assert set(store.texts) == {log(1), log(2), log(4), log(5), f"A plan.\n{log(3)}"}
    for one in cleared:
        handles = [store.texts[text] for text in store.texts]
        assert any(handle in json.dumps(one.message) for handle in handles)


def test_from_the_original_and_not_from_what_was_shortened_before() -> None:
    came = result("a", log(1, lines=400))
    sent = {**came, "content": "[kvagent: 1 of 400 lines shown]\n" + "gone " * 400}
    messages = [user("go"), reply("", ("a", "read", {}))]
    standing = [*stand(messages), Standing(3, came, sent, weigh(sent)), *stand([reply("ok")], 4)]
    store = Store()
    (one,) = planned(standing, 200, keep=0, store=store)
    assert "_1_" in text_of(one.message)
    assert "gone" not in text_of(one.message)
    assert set(store.texts) == {came["content"]}


def test_the_same_once_more_keeps_only_its_marker() -> None:
    messages = [
        user("go"),
        reply("", ("a", "read", {"path": "x"}), ("b", "run", {"cmd": "ls"})),
        result("a", log(1)),
        result("b", log(2)),
        reply("", ("c", "read", {"path": "x"})),
        result("c", log(3)),
        reply("", ("d", "run", {"cmd": "cat"})),
        result("d", log(2)),
        reply("so it is"),
    ]
    cleared = {one.index: one for one in planned(stand(messages), 300)}
    assert cleared[3].reason == "superseded"
    assert cleared[4].reason == "repeat"
    for index in (3, 4):
        text = text_of(cleared[index].message)
        assert text.count("\n") == 0
        assert "stands below" in text


def test_a_note_stays() -> None:
    standing = stand(conversation())
    each = standing[2]
    noted = {**each.came, "content": f"{each.came['content']}\n\n{NOTE}it is Monday"}
    standing[2] = Standing(each.index, each.came, noted, weigh(noted))
    text = text_of({one.index: one for one in planned(standing, ALL)}[3].message)
    assert text.endswith(f"\n\n{NOTE}it is Monday")


def test_parts_that_are_no_text_stay() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    messages = [
        user("go"),
        reply("", ("a", "see", {})),
        {**result("a", ""), "content": [image, {"type": "text", "text": log(1)}]},
        reply("done"),
    ]
    (one,) = planned(stand(messages), ALL, keep=0)
    assert one.message["content"][0] == image
    assert len(one.message["content"][1]["text"]) < len(log(1))


def test_what_was_cleared_is_not_cleared_again_for_a_little() -> None:
    standing = stand(conversation())
    once = after(standing, planned(standing, 1000, keep=0))
    assert planned(once, 0, keep=0) == []
    least = after(standing, planned(standing, ALL, keep=0))
    assert planned(least, ALL, keep=0) == []


def test_what_was_cleared_before_is_spared_where_that_is_wanted() -> None:
    standing = stand(conversation())
    once = after(standing, planned(standing, 800, keep=1))
    options: dict[str, Any] = {"keep": 0, "exclude_tools": (), "clear_tool_inputs": True}
    assert {one.index for one in planned(once, ALL, again=False, **options)} == {9}
    assert {one.index for one in planned(once, ALL, **options)} > {9}
    assert clearable(once, again=False, **options) < clearable(once, **options)


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_estimates_that_are_off_are_made_up_for(rate: float) -> None:
    """Lines full of names may have more tokens a character than the text around them."""
    messages = conversation()
    standing = [
        Standing(each.index, each.came, each.sent, int(each.tokens * rate), depth=each.depth)
        for each in stand(messages)
    ]
    cleared = planned(standing, 500, keep=0)
    by_index = {each.index: each for each in standing}
    assert sum(by_index[one.index].tokens - one.tokens for one in cleared) >= 500


SCRIPT = """
import hashlib, json, sys
from tests.clearing.prompts import planned, stand
from tests.clearing.test_planning import conversation
cleared = planned(stand(conversation()), 900, keep=0)
print(hashlib.sha256(json.dumps([one.message for one in cleared]).encode()).hexdigest())
"""


def test_the_same_in_other_processes() -> None:
    """Sets of strings have another order in each of them."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_tokens_are_those_of_the_new_form() -> None:
    for one in planned(stand(conversation()), 900, keep=0):
        assert one.tokens == pytest.approx(weigh(one.message), rel=0.05, abs=8)
