"""Are the calls of a model found in a HAR file?"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.formats import read, recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.source import opened
from kvagent.audit.transcript import Item, NoTranscript, Reported, Request, Unreadable
from tests.audit.formats.dialects.test_anthropic import BODY as ANTHROPIC
from tests.audit.formats.dialects.test_anthropic import REPLY as ANTHROPICS
from tests.audit.formats.dialects.test_responses import BODY as RESPONSES
from tests.audit.formats.files import SESSION, USER, write
from tests.audit.formats.test_exchange import BODY, COUNTS, REPLY, STREAM

Json = dict[str, Any]
URL = "https://api.openai.com/v1/chat/completions"
ANTHROPICS_URL = "https://api.anthropic.com/v1/messages"
TIME = "2026-01-01T12:00:00.000Z"
TIME_S = 1_767_268_800.0


def packed(data: bytes) -> Json:
    return {"text": base64.b64encode(data).decode(), "encoding": "base64"}


def entry(sent: Any, came: Any, status: Any = 200, url: str = URL, time: str | None = TIME) -> Json:
    """An exchange; bodies are objects, texts, or what stands for them in the file."""
    kept = [
        each if isinstance(each, dict) and "text" in each else {"text": text_of(each)}
        for each in (sent, came)
    ]
    value: Json = {
        "request": {"method": "POST", "url": url, "headers": [], "postData": kept[0]},
        "response": {"status": status, "headers": [], "content": kept[1]},
    }
    return value if time is None else {"startedDateTime": time, **value}


def text_of(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body)


def har(*entries: Any) -> Json:
    return {"log": {"version": "1.2", "creator": {"name": "x"}, "entries": list(entries)}}


def recorded(folder: Path, *entries: Any, indent: int | None = None) -> list[Item]:
    return list(read(write(folder, har(*entries), indent=indent)))


def asked(found: list[Item]) -> list[Request]:
    assert all(isinstance(each, Request) for each in found)
    return [each for each in found if isinstance(each, Request)]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "exchange",
    [
        entry(BODY, REPLY),
        entry(BODY, STREAM),
        entry(BODY, STREAM.replace("\n", "\r\n")),
        entry(BODY, packed(json.dumps(REPLY).encode())),
        entry(BODY, packed(gzip.compress(STREAM.encode()))),
        entry(packed(json.dumps(BODY).encode()), REPLY),
    ],
)
def test_a_call(tmp_path: Path, exchange: Json, indent: int | None) -> None:
    other = entry({"query": "x"}, "{}", url="https://search/")
    page: Json = {"request": {"method": "GET", "url": "https://x/"}, "response": {"status": 200}}
    (request,) = asked(recorded(tmp_path, other, page, exchange, indent=indent))
    assert request.messages == SESSION[:4]
    assert request.reported == COUNTS
    assert request.replies[0]["content"] == "One: a.py."
    assert request.place.path == ".log.entries[2]"
    assert request.complete == {"system", "tools"}
    assert request.time_s == TIME_S


def test_other_apis(tmp_path: Path) -> None:
    count = entry(ANTHROPIC, {}, url=f"{ANTHROPICS_URL}/count_tokens")
    call = entry(ANTHROPIC, ANTHROPICS, url=ANTHROPICS_URL)
    responses = entry(RESPONSES, "", url="https://api.openai.com/v1/responses")
    first, second = asked(recorded(tmp_path, count, call, responses))
    assert first.messages == SESSION[:4]
    assert first.reported == Reported(100, 90, 5, 7)
    assert second.messages == SESSION[:4]
    assert not second.replies


@pytest.mark.parametrize(
    ("came", "error"),
    [
        ("upstream is down", "upstream is down"),
        ({"error": {"message": "too long"}}, "too long"),
        ({"size": 0, "text": ""}, "status 502"),
        ({"text": "*", "encoding": "base64"}, "status 502"),
    ],
)
def test_a_refusal(tmp_path: Path, came: Any, error: str) -> None:
    (request,) = asked(recorded(tmp_path, entry(BODY, came, 502)))
    assert request.error == error
    assert not request.replies


def test_an_answer_that_was_not_kept(tmp_path: Path) -> None:
    (request,) = asked(recorded(tmp_path, {**entry(BODY, ""), "response": {"status": 0}}))
    assert (request.error, request.replies, request.reported) == (None, (), Reported())


def test_calls_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    """One without a time stays behind its neighbour."""
    times = ["2026-01-01T12:00:02Z", None, "2026-01-01T13:00:01+01:00", "2026-01-01T12:00:01Z"]
    found = asked(recorded(tmp_path, *(entry(BODY, REPLY, time=time) for time in times)))
    assert [each.place.path for each in found] == [f".log.entries[{at}]" for at in (2, 3, 0, 1)]
    assert found[0].time_s == TIME_S + 1


def test_a_body_that_cannot_be_read(tmp_path: Path) -> None:
    (item,) = recorded(tmp_path, entry({"messages": [USER, 7]}, ""))
    assert isinstance(item, Unreadable)


def test_several_files_one_a_line(tmp_path: Path) -> None:
    path = write(tmp_path, har(entry(BODY, REPLY)), {"log": 7}, har(entry(BODY, REPLY)))
    first, other, second = read(path)
    assert (first.place.line, second.place.line) == (1, 3)
    assert isinstance(other, Unreadable)
    assert other.why == "has no log of entries"


@pytest.mark.parametrize("value", [{"log": {"entries": [{"url": "x"}]}}, {"log": [1]}])
def test_other_logs_are_no_har(tmp_path: Path, value: Json) -> None:
    with pytest.raises(NoTranscript, match="an object with the keys log"):
        list(read(write(tmp_path, value)))


EXCHANGES = st.lists(
    st.tuples(
        st.sampled_from([URL, ANTHROPICS_URL, f"{ANTHROPICS_URL}/count_tokens", "https://x/"]),
        st.sampled_from([BODY, ANTHROPIC, RESPONSES, {"query": "x"}, {"messages": [7]}, "{", ""]),
        st.sampled_from([REPLY, ANTHROPICS, STREAM, "upstream is down", ""]),
        st.sampled_from([200, 400, 502]),
    ),
    min_size=1,
    max_size=6,
)


@given(EXCHANGES)
def test_a_cassette_of_the_same_exchanges_says_the_same(exchanges: list[Any]) -> None:
    cassette = [
        {
            "request": {"uri": url, "method": "POST", "body": text_of(sent)},
            "response": {"status": {"code": status}, "body": {"string": text_of(came)}},
        }
        for url, sent, came, status in exchanges
    ]
    entries = [entry(sent, came, status, url, time=None) for url, sent, came, status in exchanges]
    with TemporaryDirectory() as folder:
        path = write(Path(folder), {"interactions": cassette, "version": 1})
        taped = [told(each, "interactions") for each in read(path)]
        path = write(Path(folder), har(*entries))
        seen = [told(each, "log.entries") for each in read(path)]
        with opened(path) as source:
            assert recognise(Contents.of(source)).name == "har"
    assert seen == taped


def told(item: Item, holder: str) -> list[Any]:
    """All that an item says, and the number of its exchange."""
    at = item.place.path.removeprefix(f".{holder}")
    if not isinstance(item, Request):
        assert isinstance(item, Unreadable)
        return [at, item.why]
    return [
        at,
        list(item.messages),
        item.tools,
        item.options,
        list(item.replies),
        item.reported,
        item.error,
        item.conversation,
        item.time_s,
        item.complete,
    ]
