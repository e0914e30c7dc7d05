"""Are the requests of a log put together again as they were sent?"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.conversations import Conversations, Placed
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


def placed(*prompts: list[Message], **more: Any) -> list[Placed]:
    conversations = Conversations()
    return [conversations.place(request(prompt, **more)) for prompt in prompts]


def kinds(*prompts: list[Message]) -> list[tuple[int, str]]:
    return [(each.conversation, each.kind) for each in placed(*prompts)]


def groups(mixed: list[tuple[int, Placed]]) -> dict[int, set[int]]:
    """For each session, the conversations in which its requests are."""
    found: dict[int, set[int]] = defaultdict(set)
    for number, each in mixed:
        found[number].add(each.conversation)
    return found


@given(interleaved())
def test_sessions_are_found_again(mixed: list[tuple[int, list[Message]]]) -> None:
    """In whatever order their requests come: each session is one conversation that only grew."""
    conversations = Conversations()
    found = [(number, conversations.place(request(prompt))) for number, prompt in mixed]
    by_session = groups(found)
    assert all(len(numbers) == 1 for numbers in by_session.values())
    assert len({n for numbers in by_session.values() for n in numbers}) == len(by_session)
    counts: dict[int, int] = defaultdict(int)
    for number, each in found:
        counts[number] += 1
        assert each.number == counts[number]
        assert each.kind == ("first" if each.number == 1 else "grown")
        assert each.number == 1 or each.common == len(each.before.messages if each.before else ())


@given(interleaved(), st.integers(0, 99))
def test_a_head_that_changes_splits_nothing(
    mixed: list[tuple[int, list[Message]]], seed: int
) -> None:
    conversations = Conversations()
    found = []
    for at, (number, prompt) in enumerate(mixed):
        clock = {**SYSTEM, "content": f"It is {at + seed} o'clock. {SYSTEM['content']}"}
        tools = TOOLS if (at + seed) % 2 else TOOLS[::-1]
        found.append((number, conversations.place(request([clock, *prompt[1:]], tools=tools))))
    assert all(len(numbers) == 1 for numbers in groups(found).values())
    assert all(each.head_changed for _, each in found if each.number > 1)
    assert {each.kind for _, each in found} <= {"first", "grown"}


@given(interleaved())
def test_a_message_edited_in_mid_history_splits_nothing(
    mixed: list[tuple[int, list[Message]]],
) -> None:
    """The oldest result is replaced by a stub once there are three."""
    conversations = Conversations()
    found = []
    for number, prompt in mixed:
        results = [at for at, message in enumerate(prompt) if message["role"] == "tool"]
        if len(results) > 2:
            prompt = list(prompt)
            prompt[results[0]] = {**prompt[results[0]], "content": "[removed]"}
        found.append((number, conversations.place(request(prompt))))
    assert all(len(numbers) == 1 for numbers in groups(found).values())
    assert {each.kind for _, each in found} <= {"first", "grown", "changed"}


@given(interleaved())
def test_a_sliding_window_splits_nothing(mixed: list[tuple[int, list[Message]]]) -> None:
    """The agent sends the head and the last seven messages."""
    conversations = Conversations()
    found = []
    for number, prompt in mixed:
        body = prompt[1:][-7:]
        found.append((number, conversations.place(request([SYSTEM, *body]))))
    assert all(len(numbers) == 1 for numbers in groups(found).values())


def test_ids_separate_what_reads_alike() -> None:
    prompts = session("a", 4, 0)
    conversations = Conversations()
    found = [
        conversations.place(request(prompt, conversation=name))
        for prompt in prompts
        for name in ("one", "two")
    ]
    assert [each.conversation for each in found] == [0, 1] * len(prompts)
    assert {each.kind for each in found[2:]} == {"grown"}


def test_an_id_that_each_request_has_of_its_own_separates_nothing() -> None:
    conversations = Conversations()
    prompts = session("a", 4, 0)[1:]
    found = [
        conversations.place(request(prompt, conversation=f"run {number}"))
        for number, prompt in enumerate(prompts)
    ]
    assert {each.conversation for each in found} == {0}


def test_the_same_question_asked_twice_is_two_conversations_if_answered_otherwise() -> None:
    ask = [SYSTEM, user("hi")]
    answers = [reply("Hello, what can I do for you?"), reply("Good day! What is it about?")]
    conversations = Conversations()
    first = [conversations.place(request(ask, replies=[answer])) for answer in answers]
    next_ = [
        conversations.place(request([*ask, answer, user("go on")])) for answer in reversed(answers)
    ]
    assert [each.conversation for each in first] == [0, 1]
    assert [each.conversation for each in next_] == [1, 0]


def test_a_retry() -> None:
    ask = [SYSTEM, user("hi")]
    grown = [*ask, reply("Hello there, my friend."), user("go on")]
    assert kinds(ask, ask, grown, grown) == [
        (0, "first"),
        (0, "again"),
        (0, "grown"),
        (0, "again"),
    ]


def test_a_branch_and_back() -> None:
    begun = [SYSTEM, user("hi"), reply("Hello there, my friend.")]
    one = [*begun, user("the first way"), reply("This is the first way."), user("go on")]
    other = [*begun, user("the second way"), reply("This is the second way."), user("go on")]
    found = placed(begun[:2], one, other, [*one, reply("I go on in the first way."), user("yes")])
    assert [each.kind for each in found] == ["first", "grown", "branched", "grown"]
    assert {each.conversation for each in found} == {0}
    assert [each.branch for each in found] == [0, 0, 1, 0]
    assert found[3].common == len(one)


def test_a_compaction() -> None:
    prompts = session("a", 7, 1)
    summary = (
        "This session is continued from one that ran out of context. Summary: the files a/1.py, "
        "a/2.py and a/3.py were read; call_a_4 gave lines. "
    ) + "More was done. " * 10
    found = placed(*prompts, [SYSTEM, user(summary), *prompts[-1][-2:]])
    assert found[-1].kind == "compacted"
    assert {each.conversation for each in found} == {0}


def test_a_compaction_of_which_nothing_else_is_left() -> None:
    long = [SYSTEM, user("Look at the files, please.")]
    for number in range(5):
        at = f"call_{number}"
        long += [call("read", at, f'{{"path": "src/file_{number}.py"}}'), result("line\n" * 9, at)]
    summary = "Summary of the conversation so far: src/file_0.py, src/file_1.py, src/file_3.py"
    found = placed(long, [SYSTEM, user(summary + ", in short: nothing was found. " * 6)])
    assert [(each.conversation, each.kind) for each in found] == [(0, "first"), (0, "compacted")]


def test_a_sub_agent() -> None:
    task = "Find out who calls the function f, and tell me where."
    ask = [SYSTEM, user("Please mend f.")]
    asked = call("task", "call_1", json.dumps({"prompt": task}))
    conversations = Conversations()
    conversations.place(request(ask, replies=[asked]))
    other = {**SYSTEM, "content": "You find things out."}
    sub = conversations.place(request([other, user(task)]))
    assert (sub.conversation, sub.kind, sub.parent) == (1, "first", 0)


def test_calls_with_other_ids_each_turn() -> None:
    def prompt(turn: int) -> list[Message]:
        messages = [SYSTEM, user("Please look.")]
        for number in range(turn):
            at = f"id_{turn}_{number}"
            messages += [call("read", at, f'{{"path": "{number}.py"}}'), result("ok, done", at)]
        return messages

    found = placed(*map(prompt, range(5)))
    assert {each.conversation for each in found} == {0}
    assert [each.kind for each in found] == ["first", "grown", "changed", "changed", "changed"]


def test_arguments_written_anew_are_the_same_message() -> None:
    first = [SYSTEM, user("hi"), call("read", "1", '{"path":"a"}'), result("x", "1")]
    again = [*first[:2], call("read", "1", '{"path": "a"}'), first[3], reply("ok"), user("on")]
    found = placed(first, again)
    assert [(each.conversation, each.kind, each.common) for each in found] == [
        (0, "first", 0),
        (0, "grown", 2),
    ]


def test_no_message_at_all_and_no_body() -> None:
    found = placed([], [SYSTEM], [SYSTEM, user("hi")])
    assert found[0].kind == "first"
    assert len(found) == 3


def test_memory_is_bounded(monkeypatch: Any) -> None:
    """What was long ago is forgotten, and then it is not compared, but nothing fails."""
    monkeypatch.setattr("kvagent.audit.conversations._ROOM", 2_000)
    conversations = Conversations()
    sessions = [session(f"s{number}", 3, 0) for number in range(40)]
    found = [conversations.place(request(prompts[2])) for prompts in sessions]
    assert len({each.conversation for each in found}) == 40
    assert len(conversations._branches.values()) < 10
    again = conversations.place(request(sessions[0][3]))
    assert (again.conversation, again.before) == (0, None)


def test_a_task_that_speaks_of_a_summary_is_another_conversation() -> None:
    long = [SYSTEM, user("Look at src/file_0.py, src/file_1.py and src/file_2.py, please.")]
    for number in range(3):
        at = f"call_{number}"
        long += [call("read", at, f'{{"path": "src/file_{number}.py"}}'), result("line\n" * 9, at)]
    task = "In src/file_0.py, src/file_1.py, src/file_2.py compact the tables and write a summary. "
    found = placed(long, [SYSTEM, user(task * 4)], [*long, user("go on")])
    assert [(each.conversation, each.kind) for each in found] == [
        (0, "first"),
        (1, "first"),
        (0, "grown"),
    ]
