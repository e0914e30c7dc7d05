"""Are the requests behind messages and states of LangChain those that were sent?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import (
    SESSION,
    SYSTEM,
    TOOL,
    USER,
    items,
    requests,
    roles,
    unreadable,
)
from tests.audit.formats.test_langfuse import LANGCHAIN

Json = dict[str, Any]
USAGE = {
    "input_tokens": 100,
    "output_tokens": 5,
    "total_tokens": 105,
    "input_token_details": {"cache_read": 64, "cache_creation": 30},
}
STATE: list[Json] = [*LANGCHAIN, {"type": "ai", "content": "One.", "usage_metadata": USAGE}]


def wrapped(message: Json) -> Json:
    rest = {key: value for key, value in message.items() if key != "type"}
    return {"type": message["type"], "data": rest}


def dumped(message: Json) -> Json:
    name = {"human": "HumanMessage", "ai": "AIMessageChunk", "system": "SystemMessage"}
    path = ["langchain", "schema", "messages", name.get(message["type"], "ToolMessage")]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": message}


def state(messages: list[Json], at: int, **more: Any) -> Json:
    config = {"configurable": {"thread_id": "t"}}
    return {
        "values": {"messages": messages},
        "config": config,
        "created_at": f"2026-01-01T12:00:0{at}Z",
        **more,
    }


@pytest.mark.parametrize("form", [dict, wrapped, dumped])
@pytest.mark.parametrize("holder", [lambda it: it, lambda it: {"messages": it}])
def test_messages_in_any_form(tmp_path: Path, form: Any, holder: Any) -> None:
    first, second = requests(tmp_path, holder([form(message) for message in STATE]))
    assert list(first.messages) == SESSION[:2]
    assert list(second.messages) == SESSION[:4]
    assert second.replies[0]["content"] == "One."
    assert second.reported == Reported(100, 64, 5, 30)
    assert first.unrolled
    assert first.complete == {"system"}


def test_arguments_as_langchain_sends_them(tmp_path: Path) -> None:
    call = {"id": "a", "name": "ls", "args": {"at": "é", "n": 1}}
    (request,) = requests(
        tmp_path, [LANGCHAIN[1], {"type": "ai", "content": "", "tool_calls": [call]}]
    )
    said = request.replies[0]["tool_calls"][0]["function"]["arguments"]
    assert said == '{"at": "é", "n": 1}'


def test_the_history_of_a_thread(tmp_path: Path) -> None:
    ids = [{**message, "id": str(at)} for at, message in enumerate(STATE)]
    branch = [*ids[:4], {"type": "ai", "content": "None.", "id": "x"}]
    history = [state(branch, 9), state(ids, 4), state(ids[:4], 3), state(ids[:3], 2), state([], 1)]
    found = requests(tmp_path, history)  # the newest first, as LangGraph lists them
    assert [roles(each) for each in found] == ["su", "suat", "suat"]
    assert [each.replies[0]["content"] for each in found] == [None, "One.", "None."]
    assert {each.conversation for each in found} == {"t"}


def test_checkpoints(tmp_path: Path) -> None:
    point = {
        "v": 4,
        "ts": "2026-01-01T12:00:00Z",
        "channel_values": {"messages": [dumped(each) for each in STATE]},
    }
    for value in (point, {"checkpoint": point, "metadata": {}}):
        assert [roles(each) for each in requests(tmp_path, value)] == ["su", "suat"]


def test_what_was_removed_was_not_sent(tmp_path: Path) -> None:
    ids = [{**message, "id": str(at)} for at, message in enumerate(STATE)]
    later = [
        ids[0],
        {"type": "human", "content": "More.", "id": "7"},
        {"type": "ai", "content": "On.", "id": "8"},
    ]
    *_, last = requests(tmp_path, [state(ids, 1), state(later, 2)])
    assert [each["content"] for each in last.messages] == [SYSTEM["content"], "More."]


def test_runs_of_langsmith(tmp_path: Path) -> None:
    message = dumped(STATE[-1])
    run = {
        "run_type": "llm",
        "trace_id": "t",
        "start_time": "2026-01-01T12:00:00",
        "inputs": {"messages": [[dumped(each) for each in LANGCHAIN]]},
        "outputs": {"generations": [[{"text": "One.", "message": message}]]},
        "extra": {
            "invocation_params": {"model": "m", "tools": [TOOL]},
            "metadata": {"thread_id": "c"},
        },
    }
    chain = {"run_type": "chain", "inputs": {"x": 1}}
    refused = {**run, "outputs": None, "error": "too long"}
    one, two = requests(tmp_path, chain, run, refused)
    assert one.messages == SESSION[:4]
    assert one.tools == [TOOL]
    assert one.replies[0]["content"] == "One."
    assert (one.reported.cached_tokens, one.conversation) == (64, "c")
    assert (two.error, two.replies) == ("too long", [])


def test_what_cannot_be_read(tmp_path: Path) -> None:
    broken = {"run_type": "llm", "inputs": {"x": 1}}
    found = items(tmp_path, state(STATE, 1), broken, state([*STATE[:1], {"role": 7}], 2), 7)
    assert len(unreadable(found)) == 3
    assert len(found) == 5
    assert USER in list(found[0].messages)  # type: ignore[union-attr]
