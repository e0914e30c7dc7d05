"""Are the requests of a session those that its agent must have sent?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.formats.unroll import Prefix, Trail, grown, unrolled
from kvagent.audit.transcript import Place, Reported
from tests.audit.formats.files import ANSWER, CALL, RESULT, SESSION, SYSTEM, TOOL, USER

PLACE = Place("x")
MESSAGES = st.lists(
    st.sampled_from(("system", "user", "assistant", "tool")).map(
        lambda role: {"role": role, "content": "x"}
    ),
    max_size=12,
)


@given(MESSAGES, st.booleans())
def test_each_message_of_the_model_had_all_before_it_as_prompt(
    messages: list[dict[str, Any]], pending: bool
) -> None:
    found = list(unrolled(messages, PLACE, pending=pending))
    for request in found:
        assert request.messages == messages[: len(request.messages)]
        assert request.messages
        if request.replies:
            assert request.unrolled
            assert messages[len(request.messages)] is request.replies[0]
    assert [len(each.messages) for each in found] == sorted({len(each.messages) for each in found})
    asked = {len(each.messages) for each in found if each.replies}
    models = {at for at, each in enumerate(messages) if each["role"] == "assistant"}
    assert asked <= models
    assert not any({each["role"] for each in messages[:at]} - {"system"} for at in models - asked)


def test_what_is_known_of_a_call_comes_with_it() -> None:
    counts = Reported(10, 5, 2)
    first, second = unrolled(
        SESSION, PLACE, tools=[TOOL], conversation="c", reported={4: counts}, times={2: 1.5}
    )
    assert (len(first.messages), first.time_s, first.reported) == (2, 1.5, Reported())
    assert (len(second.messages), second.time_s, second.reported) == (4, None, counts)
    assert first.conversation == second.conversation == "c"
    assert first.complete == {"system", "tools"}


def test_a_greeting_was_not_asked_for() -> None:
    (request,) = unrolled([SYSTEM, ANSWER, USER, ANSWER], PLACE)
    assert request.messages == [SYSTEM, ANSWER, USER]
    assert request.complete == {"system"}


def test_what_waits_for_an_answer_was_sent() -> None:
    *_, last = unrolled([USER, CALL, RESULT], PLACE, pending=True)
    assert last.messages == [USER, CALL, RESULT]
    assert not last.unrolled
    assert not last.replies
    assert last.complete == frozenset()


def test_a_prefix_is_a_sequence() -> None:
    whole = list(SESSION)
    prefix = Prefix(whole, 3)
    assert list(prefix) == whole[:3]
    assert prefix == whole[:3]
    assert prefix != whole
    assert prefix[-1] is whole[2]
    assert prefix[1:] == whole[1:3]
    assert repr(prefix) == f"Prefix({whole[:3]!r})"
    for index in (3, -4):
        with pytest.raises(IndexError):
            prefix[index]


def test_a_trail_tells_where_prompts_part() -> None:
    trail = Trail()
    first = Prefix([SYSTEM, USER])
    assert trail.parts("a", first) is None
    assert trail.parts("b", Prefix([USER])) is None
    second = grown(first, CALL, RESULT)
    assert trail.parts("a", second) is None
    assert trail.parts("a", second) is None
    assert trail.parts("a", first) is second
    assert trail.parts("a", Prefix([SYSTEM])) is first


def test_what_grows_shares_a_list_until_it_parts() -> None:
    first = grown(Prefix([]), SYSTEM, USER)
    second = grown(first, CALL)
    assert second.whole is first.whole
    other = grown(first, ANSWER)
    assert (list(first), list(second)) == ([SYSTEM, USER], [SYSTEM, USER, CALL])
    assert list(other) == [SYSTEM, USER, ANSWER]
