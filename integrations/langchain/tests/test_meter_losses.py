"""Does the meter tell what breaks a prefix, why, and what it costs, and nothing where none breaks?"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kvagent import Event, PrefixBroken
from kvagent_langchain.meter import KVMeter, MissingUsageWarning

from .caching_model import CachingModel
from .messages import conversations
from .talks import add, clock, helper, look, question, slid, steady, talk


def mood(number: int) -> list[BaseMessage]:
    return [SystemMessage(f"You help people. You are in a {'good' if number < 3 else 'bad'} mood.")]


def edited(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    return [HumanMessage("I asked something else."), *history[1:]] if number >= 3 else history


def inserted(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    at = 2 if number >= 3 else len(history)
    return [*history[:at], HumanMessage("By the way, be polite to everybody."), *history[at:]][
        : len(history) + (number >= 3)
    ]


def moved(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    reminder = "\n\n<system-reminder>Do not forget to look into the file.</system-reminder>"
    return [*history[:-1], HumanMessage(history[-1].text + reminder)]


def redumped(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    """JSON that means the same, and is another text."""
    found = '{"found": 1, "of": 20}' if number < 3 else '{"of":20,"found":1}'
    call = AIMessage("", tool_calls=[{"name": "look", "args": {"path": "a"}, "id": "call_1"}])
    return [history[0], call, ToolMessage(found, tool_call_id="call_1"), *history[1:]]


def in_parts(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    """The same text, for a server."""
    if number < 3:
        return history
    return [HumanMessage([{"type": "text", "text": history[0].text}]), *history[1:]]


def swapped(number: int) -> dict[str, Any]:
    return {"tools": [look, add] if number % 2 else [add, look]}


def more_tools(number: int) -> dict[str, Any]:
    return {"tools": [look] if number < 3 else [look, add]}


def effort(number: int) -> dict[str, Any]:
    return {"reasoning_effort": "low" if number < 3 else "high"}


@pytest.mark.parametrize(
    ("options", "cause", "times", "said"),
    [
        ({"head": clock}, "volatile_text", 5, "system message 0 differs"),
        ({"head": mood}, "system_changed", 1, "system message 0 differs"),
        ({"edit": edited}, "message_changed", 1, "message changed before"),
        ({"edit": slid}, "messages_removed", 3, "messages removed before"),
        ({"edit": inserted}, "message_inserted", 1, "message inserted before"),
        ({"edit": moved}, "text_moved", 5, "messages so far"),
        ({"edit": redumped}, "message_reserialised", 1, "1 message so far"),
        ({"bound": swapped}, "tools_reordered", 5, ""),
        ({"bound": more_tools}, "tools_changed", 1, "added add"),
        ({"bound": effort}, "options_changed", 1, "changed: reasoning_effort"),
    ],
)
def test_a_break_and_its_cause(options: Any, cause: str, times: int, said: str) -> None:
    told: list[Event] = []
    meter = KVMeter(on_event=told.append)
    talk(meter, 6, **options)
    breaks = meter.breaks
    assert [each.cause for each in breaks] == [cause] * times
    assert said in breaks[-1].detail
    assert all(each.lost_tokens > 0 for each in breaks)
    assert meter.lost_tokens == sum(each.lost_tokens for each in breaks)
    assert meter.lost_tokens < meter.prompt_tokens
    assert [event for event in told if isinstance(event, PrefixBroken)] == breaks
    assert meter.turns == 6
    assert meter.misses == []  # a break says why, once
    assert cause in meter.report()


def test_another_form_of_the_same_text_breaks_nothing() -> None:
    meter = KVMeter()
    talk(meter, 6, edit=in_parts)
    assert meter.breaks == []
    assert meter.misses == []


def test_what_text_that_moves_costs_is_what_stands_behind_it() -> None:
    """It moves out of one message each turn; what stood before that one is cached."""
    meter = KVMeter()
    talk(meter, 8, edit=moved)
    assert meter.prefilled_tokens is not None
    turn = meter.conversations[0].growth_per_turn
    assert turn is not None
    assert all(each.lost_tokens < 2 * turn for each in meter.breaks)


def test_appending_never_breaks() -> None:
    meter = KVMeter()
    for number in range(4):
        talk(meter, 5, head=helper(number))
    assert meter.breaks == []
    assert meter.misses == []


@settings(derandomize=True, deadline=None, max_examples=60)
@given(conversations(turns_at_most=6))
def test_whoever_only_appends_never_breaks(messages: list[BaseMessage]) -> None:
    """Whatever they say, in calls, results and replies, and however often they say the same."""
    replies = [at for at, message in enumerate(messages) if isinstance(message, AIMessage)]
    answers = (messages[at] for at in replies)
    meter, model = KVMeter(), GenericFakeChatModel(messages=answers)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingUsageWarning)
        for at in replies:
            model.invoke(messages[:at], {"callbacks": [meter]})
    assert meter.turns == len(replies)
    assert meter.breaks == []


def test_going_back_and_fanning_out_break_nothing() -> None:
    meter, model = KVMeter(), CachingModel()
    start = [*steady(0), question(0)]
    reply = model.invoke(start, {"callbacks": [meter]})
    branches: list[Any] = [[*start, reply, question(number)] for number in (1, 2, 3)]
    model.batch(branches, {"callbacks": [meter]})
    model.invoke(start, {"callbacks": [meter]})
    assert meter.breaks == []


def test_a_cache_that_forgot_is_a_miss_and_no_break() -> None:
    meter, model = KVMeter(), CachingModel()

    def forget(history: list[BaseMessage], number: int) -> list[BaseMessage]:
        if number == 3:
            model._kept.clear()
        return history

    talk(meter, 5, model=model, edit=forget)
    (miss,) = meter.misses
    assert miss.cause == "restart"
    assert meter.breaks == []
    assert meter.lost_tokens == miss.expected_tokens - miss.cached_tokens
