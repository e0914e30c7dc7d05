"""Are the calls in a log of Inspect those that were made?"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from kvagent.audit.formats import read
from kvagent.audit.transcript import Reported, Request, Unreadable
from tests.audit.formats.files import (
    ANSWER,
    CALL,
    RESULT,
    SESSION,
    TOOL,
    USER,
    items,
    requests,
    unreadable,
)

Json = dict[str, Any]
LONG = "Be brief."
INPUT: list[Json] = [
    {"id": "1", "role": "system", "content": "attachment://abc"},
    {"id": "2", "role": "user", "content": USER["content"], "source": "input"},
    {
        "id": "3",
        "role": "assistant",
        "content": [{"type": "reasoning", "reasoning": "Hm."}],
        "tool_calls": [{"id": "call_1", "function": "ls", "arguments": {}, "type": "function"}],
    },
    {"id": "4", "role": "tool", "content": "a.py", "tool_call_id": "call_1", "function": "ls"},
]
USAGE = {
    "input_tokens": 3,
    "output_tokens": 5,
    "total_tokens": 105,
    "input_tokens_cache_read": 90,
    "input_tokens_cache_write": 7,
}


def event(input: list[Json], **more: Any) -> Json:
    output = {
        "choices": [{"message": {"id": "9", "role": "assistant", "content": ANSWER["content"]}}],
        "usage": USAGE,
    }
    call = {"event": "model", "model": "m", "input": input, "tools": [TOOL["function"]]}
    return {**call, "config": {"temperature": 0}, "output": output, **more}


def sample(*events: Any, **more: Any) -> Json:
    holder = {"id": "a", "epoch": 1, "messages": [], "attachments": {"abc": LONG}}
    return {**holder, "events": [{"event": "span_begin"}, *events], **more}


def log(*samples: Any) -> Json:
    return {"version": 2, "eval": {"task": "t"}, "samples": list(samples)}


def test_a_call(tmp_path: Path) -> None:
    for value in (sample(event(INPUT)), log(sample(event(INPUT)))):
        (request,) = requests(tmp_path, value)
        expected = [*SESSION[:2], {**CALL, "content": "", "reasoning_content": "Hm."}, RESULT]
        assert request.messages == expected
        assert request.tools == [TOOL]
        assert [dict(reply) for reply in request.replies] == [ANSWER]
        assert request.reported == Reported(100, 90, 5, 7)
        assert (request.conversation, request.options) == ("a/1", {"model": "m", "temperature": 0})
        assert request.complete == {"system", "tools"}
    assert request.place.path == ".samples[0].events[1].input"


def test_makers_that_count_the_cached_in_the_input(tmp_path: Path) -> None:
    one = event(INPUT)
    one["output"]["usage"] = {
        "input_tokens": 100,
        "output_tokens": 5,
        "total_tokens": 105,
        "input_tokens_cache_read": 64,
    }
    (request,) = requests(tmp_path, sample(one))
    assert request.reported == Reported(100, 64, 5)


def test_what_was_never_asked_for(tmp_path: Path) -> None:
    kept, waiting = event(INPUT, cache="read"), event(INPUT, pending=True)
    assert requests(tmp_path, sample(kept, waiting, event(INPUT[:2])))[0].messages == SESSION[:2]


def test_a_grader_has_conversations_of_its_own(tmp_path: Path) -> None:
    one, other = requests(tmp_path, sample(event(INPUT), event(INPUT[:2], role="grader")))
    assert (one.conversation, other.conversation) == ("a/1", "a/1/grader")


def test_messages_of_a_pool(tmp_path: Path) -> None:
    call = event([], input_refs=[[0, 2], [3, 4]])
    (request,) = requests(tmp_path, sample(call, events_data={"messages": INPUT}))
    assert request.messages == [*SESSION[:2], RESULT]


def test_the_same_id_may_have_another_text(tmp_path: Path) -> None:
    other = [INPUT[0], {**INPUT[1], "content": "Else."}]
    one, two = requests(tmp_path, sample(event(INPUT[:2]), event(other)))
    assert one.messages[0] is two.messages[0]
    assert [one.messages[1]["content"], two.messages[1]["content"]] == [USER["content"], "Else."]


def test_a_refusal(tmp_path: Path) -> None:
    (request,) = requests(tmp_path, sample(event(INPUT, error="too long")))
    assert (request.error, request.replies) == ("too long", ())


def test_what_cannot_be_read(tmp_path: Path) -> None:
    broken = [event([]), event([{"role": 7}]), event([7])]  # type: ignore[list-item]
    found = items(tmp_path, log(sample(*broken, event(INPUT)), 7))
    assert len(unreadable(found)) == 4
    assert len(found) == 5


def test_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", "{}")
        archive.writestr("samples/a_epoch_1.json", json.dumps(sample(event(INPUT))))
        archive.writestr("samples/b_epoch_1.json", "{")
        archive.writestr("header.json", "{}")
    request, broken = read(path)
    assert isinstance(request, Request)
    assert request.messages[0] == SESSION[0]
    assert request.place.path == "samples/a_epoch_1.json.events[1].input"
    assert isinstance(broken, Unreadable)
    path.write_bytes(path.read_bytes()[:-30])
    (broken,) = read(path)
    assert isinstance(broken, Unreadable)
    assert "no ZIP archive" in broken.why


def test_a_compaction_is_told(tmp_path: Path) -> None:
    events = [event(INPUT), {"event": "compaction"}, event(INPUT[:2]), event(INPUT)]
    found = requests(tmp_path, sample(*events))
    assert [each.departs for each in found] == [None, "compaction", None]
