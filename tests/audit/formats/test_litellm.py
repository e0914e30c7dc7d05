"""Are the requests of LiteLLM's logs found, with what came back?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import ANSWER, SESSION, TOOL, items, requests, unreadable

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 60},
}
REPLY = {"choices": [{"message": ANSWER}], "usage": USAGE}
STANDARD: dict[str, Any] = {
    "id": "x",
    "call_type": "acompletion",
    "trace_id": "t",
    "messages": SESSION[:4],
    "response": REPLY,
    "model": "m",
    "model_parameters": {"tools": [TOOL], "temperature": 0},
    "startTime": 1_700_000_000.5,
}


def test_what_a_callback_writes(tmp_path: Path) -> None:
    (request,) = requests(tmp_path, STANDARD)
    assert request.messages == SESSION[:4]
    assert request.tools == [TOOL]
    assert dict(request.replies[0]) == ANSWER
    assert request.reported == Reported(100, 60, 7)
    assert (request.conversation, request.time_s) == ("t", 1_700_000_000.5)
    assert not request.unrolled


def test_what_the_proxy_keeps_as_text(tmp_path: Path) -> None:
    texts = {key: json.dumps(STANDARD[key]) for key in ("messages", "response", "model_parameters")}
    (request,) = requests(tmp_path, {**STANDARD, **texts})
    assert request.messages == SESSION[:4]
    assert request.tools == [TOOL]
    assert request.reported.cached_tokens == 60


def test_what_openhands_writes(tmp_path: Path) -> None:
    record = {
        "messages": SESSION[:4],
        "tools": [TOOL],
        "kwargs": {"tools": [TOOL], "temperature": 0},
        "response": REPLY,
        "cost": 0.1,
        "timestamp": 1_700_000_000.5,
        "latency_sec": 3.1,
    }
    (request,) = requests(tmp_path, record)
    assert request.messages == SESSION[:4]
    assert request.tools == [TOOL]
    assert request.reported == Reported(100, 60, 7)


def test_a_refusal(tmp_path: Path) -> None:
    refused = {
        **STANDARD,
        "response": {},
        "status": "failure",
        "error_str": "too long",
        "prompt_tokens": 99,
    }
    (request,) = requests(tmp_path, refused)
    assert (request.error, request.replies) == ("too long", ())
    assert request.reported.prompt_tokens == 99


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    bad = [{**STANDARD, "messages": 7}, {**STANDARD, "messages": [7]}, [], "x"]
    found = items(tmp_path, STANDARD, *bad)
    assert len(unreadable(found)) == 3
    assert len(found) == 4
