"""Is a request read as if it stood alone, although what it repeats is taken over?"""

from __future__ import annotations

import copy
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.audit.sent import Reader, raw_of
from kvagent.audit.turns import Analysis
from tests.audit.formats.mutants import wrong
from tests.audit.logs import TOOLS, Message, call, interleaved, request, result


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[list[Message], list[dict[str, Any]]]]:
    """Sessions in turn; some messages are the objects of before, some are copies, few are changed."""
    chance = random.Random(draw(st.integers(0, 9_999)))
    log = []
    for _, prompt in draw(interleaved()):
        messages = list(prompt)
        for at in range(len(messages)):
            if chance.random() < 0.2:
                messages[at] = copy.deepcopy(messages[at])
            if chance.random() < 0.02:
                changed = wrong(messages[at], chance)
                if isinstance(changed, dict) and isinstance(changed.get("role"), str):
                    messages[at] = changed
        if chance.random() < 0.1:
            del messages[chance.randrange(len(messages)) :]
        log.append((messages or list(prompt), TOOLS if chance.random() < 0.8 else TOOLS[:1]))
    return log


@settings(deadline=None)
@given(logs())
def test_as_if_it_stood_alone(log: list[tuple[list[Message], list[dict[str, Any]]]]) -> None:
    reader = Reader()
    for messages, tools in log:
        read = reader.read(request(messages, tools=tools))
        alone = Reader().read(request(messages, tools=tools))
        assert read == alone
        assert [known.raw for known in read.messages] == [raw_of(each) for each in messages]
        assert len(read.links) == len(read.body or read.messages)
        held = sum(len(known.raw) + 8 for known in read.messages)
        assert read.size == held + sum(map(len, read.tools))


@settings(deadline=None)
@given(logs())
def test_the_parts_of_a_prompt(log: list[tuple[list[Message], list[dict[str, Any]]]]) -> None:
    """Whether they were added up anew or taken over from the turn before."""
    analysis = Analysis()
    for messages, tools in log:
        turn = analysis.turn(request(messages, tools=tools))
        sizes = {"tool": 0, "assistant": 0}
        for number, message in enumerate(messages):
            part = {"function": "tool"}.get(message["role"], message["role"])
            if part in sizes:
                sizes[part] += turn.size_of(number)
        assert (turn.parts.tool, turn.parts.assistant) == (sizes["tool"], sizes["assistant"])
        parts = turn.parts
        assert parts.head + parts.user + parts.assistant + parts.tool == turn.prompt_tokens


def test_two_forms_of_one_message_are_one() -> None:
    said = call("read", "1", '{"path": "a.py", "line": 1}')
    function = {"arguments": '{"line":1,"path":"a.py"}', "name": "read"}
    other = {
        "tool_calls": [{"function": function, "id": "1", "index": 0}],
        "role": "assistant",
        "content": None,
        "tool_call_id": None,
    }
    one, two = Reader().known(said), Reader().known(other)
    assert (one.name, one.gist) == (two.name, two.gist)


@given(st.lists(st.sampled_from(("1", "2", None, 7)), min_size=1, max_size=3))
def test_other_ids_are_another_name_for_one_gist(ids: list[Any]) -> None:
    def calling(ids: list[Any]) -> Message:
        function = {"name": "read", "arguments": "{}"}
        calls = [{"id": each, "function": function} for each in ids]
        return {"role": "assistant", "content": "x", "tool_calls": calls}

    reader = Reader()
    one, other = reader.known(calling(ids)), reader.known(calling(["0", *ids[1:]]))
    assert one.gist == other.gist
    assert one.name != other.name
    assert reader.known(calling([*ids, "0"])).gist != one.gist
    one, other = reader.known(result("x", "1")), reader.known(result("x", "2"))
    assert one.gist == other.gist
    assert one.name != other.name
