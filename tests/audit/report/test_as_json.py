"""Is the report as JSON whole, and what its schema says?"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
from hypothesis import given, settings

from kvagent.audit.conversations import Kind
from kvagent.audit.difference import Where, Why
from kvagent.audit.prediction import Target
from kvagent.audit.report.as_json import as_dict, write
from kvagent.audit.reported import Gap, Reason
from kvagent.audit.rule import Contrast, Finding, Rule, Spot
from kvagent.audit.session import (
    Break,
    Failed,
    Gate,
    Report,
    Result,
    Row,
    Session,
    Timeline,
    WhatIf,
)
from kvagent.audit.transcript import Hashed, Place, Reported, Unreadable
from kvagent.audit.turns import Parts, Totals, Traced
from kvagent.prefixcache.hit import Loss
from tests.audit.report.reports import REPORTS, everything, finding, names, row, session

SCHEMA: dict[str, Any] = json.loads(
    importlib.resources.files("kvagent.audit.report").joinpath("audit.schema.json").read_bytes()
)

# What is told otherwise than in a field of the same name.
LEFT_OUT: dict[type, set[str]] = {
    Finding: {"rule"},  # its own fields stand among the finding's
    Target: {"settings"},  # of a simulator, not of the server
    Gate: {"findings"},  # they stand among the sessions'
    Unreadable: {"is_end"},  # its reason says so
    Traced: {"request"},  # its own fields stand among the row's
    Hashed: {"blocks", "conversation"},  # hashes and ids: no figures
}
ADDED: dict[str, set[str]] = {
    "finding": names(Rule),
    "report": {"version"},
    "timeline": {"conversation"},
    "totals": {"hit_rate", "reported_hit_rate"},
    "traced": {"full_tokens"} | (names(Hashed) - LEFT_OUT[Hashed]),
}
TOLD: dict[str, type] = {
    "break": Break,
    "contrast": Contrast,
    "failed": Failed,
    "finding": Finding,
    "gap": Gap,
    "gate": Gate,
    "parts": Parts,
    "place": Place,
    "report": Report,
    "reported": Reported,
    "result": Result,
    "row": Row,
    "session": Session,
    "spot": Spot,
    "target": Target,
    "timeline": Timeline,
    "totals": Totals,
    "traced": Traced,
    "unreadable": Unreadable,
    "what_if": WhatIf,
}


def defined(name: str) -> dict[str, Any]:
    found: dict[str, Any] = SCHEMA if name == "report" else SCHEMA["$defs"][name]
    return found


def assert_valid(value: Any) -> None:
    faults = sorted(jsonschema.Draft202012Validator(SCHEMA).iter_errors(value), key=str)
    assert [f"{fault.json_path}: {fault.message}" for fault in faults] == []


def objects(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "properties" in schema:
        yield schema
    for each in schema.get("$defs", {}).values():
        yield from objects(each)


@pytest.mark.parametrize("name", sorted(TOLD))
def test_every_field_has_its_key(name: str) -> None:
    kind = TOLD[name]
    expected = (names(kind) - LEFT_OUT.get(kind, set())) | ADDED.get(name, set())
    assert set(defined(name)["properties"]) == expected


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_object_is_closed_and_every_key_is_there_and_described() -> None:
    for each in objects(SCHEMA):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
        for key, value in each["properties"].items():
            assert "$ref" in value or value["description"], key


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("row", "kind", Kind),
        ("row", "loss", Loss),
        ("traced", "loss", Loss),
        ("gap", "reason", Reason),
        ("break", "where", Where),
        ("target", "kind", get_type_hints(Target)["kind"]),
    ],
)
def test_words_are_those_of_the_types(name: str, key: str, words: Any) -> None:
    expected = {word or None for word in get_args(words)}
    assert set(defined(name)["properties"][key]["enum"]) == expected


def test_causes_are_those_of_the_types() -> None:
    known = {word for part in get_args(Why) for word in get_args(part)}
    assert set(SCHEMA["$defs"]["cause"]["enum"]) == known


def test_a_report_with_everything_is_valid() -> None:
    report = everything()
    value = json.loads(write(report))
    assert value == as_dict(report)
    assert_valid(value)
    # so that a field which is never filled is not thought to be tested
    for kind in ("gap", "error", "fault", "kv_bytes", "time_s"):
        assert value["sessions"][0]["rows"][2][kind] is not None


def test_a_key_that_the_schema_lacks_is_a_fault() -> None:
    value = as_dict(everything())
    value["sessions"][0]["rows"][0]["new"] = 1
    with pytest.raises(AssertionError, match=r"rows\[0\].*'new' was unexpected"):
        assert_valid(value)


@given(report=REPORTS)
@settings(max_examples=50, deadline=None)
def test_any_report_is_valid(report: Report) -> None:
    text = write(report)
    assert text == write(report)
    assert text.endswith("}\n")
    assert_valid(json.loads(text, parse_constant=pytest.fail))


def test_what_is_not_known_is_null() -> None:
    sums = Totals(1, 0, 0)
    rule = replace(finding().rule, cost="")
    value = as_dict(Report([session(totals=sums, findings=[finding(rule)])]))["sessions"][0]
    assert value["totals"]["hit_rate"] is None
    assert value["totals"]["reported_cached_tokens"] is None
    assert value["findings"][0]["tokens"] is None
    assert value["findings"][0]["spots"][0]["tokens"] is None
    assert value["rows"][0]["growth"] is None
    assert value["rows"][0]["reported"]["cached_tokens"] is None
    assert value["what_if"] is None


def test_zero_that_is_known_is_zero() -> None:
    sums = Totals(1, 100, 0, reported_requests=1, reported_prompt_tokens=100)
    told = row(1, reported=Reported(100, 0))
    value = as_dict(Report([session(totals=sums, rows=[told])]))["sessions"][0]
    assert value["totals"]["hit_rate"] == 0
    assert value["totals"]["reported_cached_tokens"] == 0
    assert value["totals"]["reported_hit_rate"] == 0
    assert value["rows"][0]["reported"]["cached_tokens"] == 0


@pytest.mark.parametrize("what", ["surrogate", "number"])
def test_what_orjson_refuses_is_written_too(what: str) -> None:
    made = session("caf\udce9.json" if what == "surrogate" else "a.json")
    made.rows = [row(1, growth=1 << 70)] if what == "number" else made.rows
    value = json.loads(write(Report([made])).encode())
    assert value["sessions"][0]["file"] == ("caf?.json" if what == "surrogate" else "a.json")
    assert_valid(value)


def test_every_recorded_session_gives_a_valid_report(recorded: list[Session]) -> None:
    for each in recorded:
        assert_valid(as_dict(Report([each])))
