"""Are the calls of a model found in a cassette?"""

from __future__ import annotations

import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.formats import read
from kvagent.audit.transcript import (
    CannotRead,
    Item,
    NoTranscript,
    Place,
    Reported,
    Request,
    Unreadable,
)
from tests.audit.formats.dialects.test_anthropic import BODY as ANTHROPIC
from tests.audit.formats.dialects.test_anthropic import REPLY as ANTHROPICS
from tests.audit.formats.files import SESSION, USER
from tests.audit.formats.test_exchange import BODY, COUNTS, REPLY, STREAM

yaml = pytest.importorskip("yaml")
Json = dict[str, Any]
URI = "https://api.openai.com/v1/chat/completions"


def exchange(request: Json, response: Json, uri: str = URI) -> Json:
    return {"request": {"uri": uri, "method": "POST", **request}, "response": response}


def recorded(folder: Path, *interactions: Json, json_too: bool = False) -> list[Item]:
    path = folder / "cassette"
    value = {"interactions": list(interactions), "version": 1}
    path.write_text(json.dumps(value) if json_too else yaml.safe_dump(value))
    return list(read(path))


OK = {"status": {"code": 200}}
TEXTS = exchange({"body": json.dumps(BODY)}, {**OK, "body": {"string": json.dumps(REPLY)}})


@pytest.mark.parametrize(
    "interaction",
    [
        TEXTS,
        exchange({"parsed_body": BODY}, {**OK, "parsed_body": REPLY}),
        exchange({"body": json.dumps(BODY)}, {**OK, "body": {"string": STREAM}}),
        exchange(
            {"body": json.dumps(BODY).encode()},
            {**OK, "body": {"string": gzip.compress(json.dumps(REPLY).encode())}},
        ),
    ],
)
def test_a_call(tmp_path: Path, interaction: Json) -> None:
    other = exchange({"body": '{"query": "x"}'}, {"body": {"string": "{}"}}, "https://search/")
    found = recorded(tmp_path, other, interaction)
    (request,) = found
    assert isinstance(request, Request)
    assert request.messages == SESSION[:4]
    assert request.reported == COUNTS
    assert request.replies[0]["content"] == "One: a.py."
    assert request.place.path == ".interactions[1]"
    assert request.complete == {"system", "tools"}


def test_a_cassette_may_be_json(tmp_path: Path) -> None:
    (request,) = recorded(tmp_path, TEXTS, json_too=True)
    assert isinstance(request, Request)
    assert request.reported == COUNTS


def test_other_apis(tmp_path: Path) -> None:
    uri = "https://api.anthropic.com/v1/messages"
    count = exchange({"parsed_body": ANTHROPIC}, {**OK, "parsed_body": {}}, f"{uri}/count_tokens")
    call = exchange({"parsed_body": ANTHROPIC}, {**OK, "parsed_body": ANTHROPICS}, uri)
    (request,) = recorded(tmp_path, count, call)
    assert isinstance(request, Request)
    assert request.messages == SESSION[:4]
    assert request.reported == Reported(100, 90, 5, 7)


def test_a_refusal(tmp_path: Path) -> None:
    body = {"string": "upstream is down"}
    (request,) = recorded(
        tmp_path, exchange({"parsed_body": BODY}, {"status": {"code": 502}, "body": body})
    )
    assert isinstance(request, Request)
    assert request.error == "upstream is down"


def test_a_body_that_cannot_be_read(tmp_path: Path) -> None:
    broken = exchange({"parsed_body": {"messages": [USER, 7]}}, OK)
    (item,) = recorded(tmp_path, broken)
    assert isinstance(item, Unreadable)


BOMB = "interactions:\n- request:\n    body: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"    x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "repeats itself"),
        ("interactions:\n- request: &a\n    body: *a\n", "holds itself"),
        ("interactions:\n- request: {a: " + "[" * 150 + "]" * 150 + "}\n", "nested too deeply"),
        ("interactions:\n- request: [\n", "is not YAML"),
        ("interactions:\n- request: {a: !!python/object:os.system x}\n", "is not YAML"),
    ],
)
def test_yaml_that_does_harm_is_not_read(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "cassette"
    path.write_text(text)
    (item,) = read(path)
    assert isinstance(item, Unreadable)
    assert why in item.why


def test_dates_and_numbers_as_keys_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "cassette"
    path.write_text(
        "interactions:\n- request:\n    parsed_body:\n      messages:\n"
        "      - {role: user, content: hi, 7: 2026-01-01}\n"
    )
    (request,) = read(path)
    assert isinstance(request, Request)
    assert request.messages == [{"role": "user", "content": "hi", "7": "2026-01-01"}]


def test_other_yaml_is_no_cassette(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("services:\n  web:\n    image: x\n")
    with pytest.raises(NoTranscript, match="looks like YAML"):
        list(read(path))


def test_yaml_that_nothing_here_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert recorded(tmp_path, TEXTS)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(
        CannotRead, match=r"which takes PyYAML: pip install \"kvagent\[audit\]\"\.$"
    ):
        list(read(tmp_path / "cassette"))


def test_half_an_archive_is_not_taken_for_a_whole_cassette(tmp_path: Path) -> None:
    recorded(tmp_path, TEXTS)
    path = tmp_path / "cassette"
    more = f"\n# {random.Random(0).randbytes(4_000).hex()}\n"  # YAML is whole without it
    path.write_bytes(gzip.compress(path.read_bytes() + more.encode())[:-1_000])
    request, end = read(path)
    assert isinstance(request, Request)
    assert end == Unreadable(Place(str(path)), "breaks off", is_end=True)
