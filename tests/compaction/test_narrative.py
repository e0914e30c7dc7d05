"""Is the model asked for a narrative without its prompt changing, and its answer read rightly?"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from kvagent.compaction import NO_FACTS, SummaryReply, facts_of
from kvagent.compaction import narrative as form
from kvagent.compaction.flow import Compacted, compact
from kvagent.compaction.record import is_record
from tests.compaction.good import good
from tests.compaction.sessions import Message, assistant, used, user, words

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You work."},
        user("Do it. Never push."),
        *used("read", "many words " * 400, path="a.py"),
    ],
    "tools": [{"type": "function", "function": {"name": "read"}}],
    "tool_choice": "auto",
    "stream": True,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "json_object"},
    "chat_template_kwargs": {"enable_thinking": False},
    "max_completion_tokens": 5,
    "temperature": 0.5,
    "stop": ["x"],
}
SOURCE: list[Message] = BODY["messages"][1:]
FACTS = facts_of(SOURCE)


def test_what_shapes_the_prompt_stays_and_what_shapes_the_answer_goes() -> None:
    request = form.request(BODY, FACTS, max_tokens=700)
    assert request["messages"][:-1] == BODY["messages"]
    assert request["messages"][-1]["role"] == "user"
    assert {name: request[name] for name in request if name != "messages"} == {
        "model": "m",
        "tools": BODY["tools"],
        "tool_choice": "none",
        "stream": False,
        "chat_template_kwargs": {"enable_thinking": False},
        "max_completion_tokens": 700,
        "temperature": 0.5,
    }
    assert BODY["stream"] is True


def test_the_keys_of_the_prompt_are_none_of_those_that_go() -> None:
    from kvagent.backends import PROMPT_KEYS

    # These shape the prompt's end, or forbid the server to use its cache.
    gone = {"add_generation_prompt", "continue_final_message", "prompt_logprobs"}
    kept = form.request(
        {**dict.fromkeys(PROMPT_KEYS, "x"), "messages": SOURCE}, NO_FACTS, max_tokens=1
    )
    assert PROMPT_KEYS - kept.keys() <= gone | {"response_format", "tool_choice"}


def test_the_choice_of_tools_can_be_left_out() -> None:
    assert "tool_choice" not in form.request(BODY, FACTS, max_tokens=1, tool_choice=None)
    bare = {"messages": SOURCE}
    assert "tool_choice" not in form.request(bare, FACTS, max_tokens=1)


def test_roles_still_alternate() -> None:
    body = {"messages": [user("Hello."), assistant("Hi."), user("Do it.")]}
    request = form.request(body, NO_FACTS, max_tokens=1)
    assert [message["role"] for message in request["messages"]] == ["user", "assistant", "user"]
    assert request["messages"][-1]["content"].startswith("Do it.\n\n")
    assert body["messages"][-1]["content"] == "Do it."


def test_a_refused_answer_is_told_what_it_lacked() -> None:
    request = form.request(BODY, FACTS, max_tokens=1, retold=["it was empty"])
    assert request["messages"][-1]["content"].endswith("- it was empty")


def test_sections_come_back_as_they_were_written() -> None:
    sections = {number: [f"- line {number}.{at}" for at in range(3)] for number in range(1, 9)}
    assert form.sections_of(form.written(sections)) == sections
    assert form.sections_of("1. done this\n2. and that") == {}


def test_replaced_values_are_taken_out_of_what_was_written_before() -> None:
    facts = facts_of([user("The port is 8080. The mode is on.")])
    facts = facts_of([user("The port is 9090. The mode is off.")], facts)
    text = "- It ran on 8080.\n- The mode was on.\n- It went on."
    updated = form.up_to_date(text, facts)
    assert updated.count("[replaced later]") == 2
    assert updated.endswith("- It went on.")


Answers = Callable[[dict[str, Any]], SummaryReply | str | None]


def run(answer: Answers, **options: Any) -> tuple[Compacted, list[dict[str, Any]]]:
    """The flow with a summarizer, and what it was asked."""
    asked: list[dict[str, Any]] = []
    flow: Generator[Any, Any, Compacted] = compact(
        BODY, SOURCE, FACTS, budget=900, max_tokens=300, count_tokens=words, **options
    )
    try:
        request = next(flow)
        while True:
            asked.append(request)
            request = flow.send(answer(request))
    except StopIteration as done:
        return done.value, asked


def test_a_good_answer_stands() -> None:
    done, asked = run(good)
    assert done.calls == len(asked) == 1
    assert done.narrative == good(asked[0]).text
    assert is_record(done.record)
    assert "The smaller of two changes" in done.record
    assert "- Never push." in done.record


def test_a_bare_text_is_an_answer() -> None:
    done, _ = run(lambda request: good(request).text)
    assert done.narrative is not None


def test_one_more_try_that_names_the_faults() -> None:
    answers = iter(["", "good"])
    done, asked = run(lambda request: good(request) if next(answers) else SummaryReply(""))
    assert done.calls == len(asked) == 2
    assert done.refused == ("it was empty",)
    assert "it was empty" in asked[1]["messages"][-1]["content"]
    assert asked[1]["messages"][:-1] == asked[0]["messages"][:-1]
    assert done.narrative is not None


def test_after_two_faulty_answers_the_facts_stand_alone() -> None:
    done, asked = run(lambda request: SummaryReply("It went well.", counts={"usage": 1}))
    assert done.calls == len(asked) == 2
    assert done.narrative is None
    assert "It went well" not in done.record
    assert "- Never push." in done.record
    assert done.counts == ({"usage": 1}, {"usage": 1})


def test_no_answer_is_not_asked_for_again() -> None:
    done, asked = run(lambda request: None)
    assert done.calls == len(asked) == 1
    assert done.narrative is None
    assert is_record(done.record)


@pytest.mark.parametrize("choice", ["none", None])
def test_the_flow_passes_the_choice_on(choice: str | None) -> None:
    _, asked = run(good, tool_choice=choice)
    assert asked[0].get("tool_choice") == choice
